/** Style of the pages. */
export const STYLE = `:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--line:#d8dee4;--ground:#fff;--code:#f3f5f7;--link:#0b57d0;
--accent:#0f766e;--mark:#fff3b0;--comment:#57606a;--string:#0a5a37;--constant:#0550ae;--keyword:#6f3bb3;--name:#8a3a00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4af;--line:#2c333b;--ground:#111418;--code:#1b2027;--link:#8ab4f8;
--accent:#5eead4;--mark:#5c4a00;--comment:#9aa4af;--string:#7ee2a8;--constant:#79c0ff;--keyword:#d2a8ff;--name:#ffb072}}
*{box-sizing:border-box}html{scroll-padding-top:4.5rem}
body{margin:0;font:16px/1.6 system-ui,sans-serif;color:var(--ink);background:var(--ground)}
a{color:var(--link)}a:focus-visible,pre:focus-visible,.table:focus-visible,input:focus-visible,button:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;z-index:2;background:var(--ground);padding:.25rem .5rem}
header{position:sticky;top:0;z-index:1;display:flex;gap:1rem;align-items:center;padding:.6rem 1.25rem;background:var(--ground);
border-bottom:1px solid var(--line)}
.brand{font-weight:650;color:inherit;text-decoration:none;white-space:nowrap}.home{white-space:nowrap}
form{display:flex;gap:.4rem;flex:1;max-width:34rem;margin-left:auto}
input{flex:1;min-width:0;font:inherit;padding:.3rem .6rem;border:1px solid var(--line);border-radius:6px;background:var(--code);color:inherit}
button{font:inherit;padding:.3rem .8rem;border:1px solid var(--line);border-radius:6px;background:var(--code);color:inherit;cursor:pointer}
.page{display:grid;grid-template-columns:15rem minmax(0,1fr) 13rem;gap:2.5rem;max-width:90rem;margin:0 auto;padding:0 1.25rem}
.site,.contents{position:sticky;top:3.6rem;align-self:start;max-height:calc(100vh - 3.6rem);overflow:auto;padding:1rem 0;font-size:.9rem}
.site h2,.site-small h2,.contents h2{font-size:.75rem;text-transform:uppercase;letter-spacing:.05em;color:var(--soft);margin:1rem 0 .25rem;border:0;padding:0}
.site ul,.site-small ul,.contents ul{list-style:none;margin:0;padding:0}
.site li a,.site-small li a,.contents li a{display:block;padding:.15rem .5rem;border-radius:4px;color:inherit;text-decoration:none;overflow-wrap:anywhere}
.site li a:hover,.contents li a:hover{background:var(--code)}[aria-current]{background:var(--code);font-weight:600}
.site-small{display:none}main{padding:1.25rem 0 4rem;min-width:0;overflow-wrap:break-word}
h1{font-size:1.9rem;line-height:1.25;margin:.5rem 0 1rem}h2{font-size:1.35rem;margin:2.25rem 0 .6rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:1.1rem;margin:1.6rem 0 .4rem}p,li{max-width:46rem}
code,pre{font:.875em/1.5 ui-monospace,"SFMono-Regular",Menlo,Consolas,monospace}
code{background:var(--code);border-radius:4px;padding:.1em .3em;overflow-wrap:anywhere}
pre{background:var(--code);border:1px solid var(--line);border-radius:6px;padding:.75rem 1rem;overflow:auto}.operation pre{max-height:32rem}
.code{position:relative}.copy{position:absolute;top:.45rem;right:.45rem;padding:.05rem .5rem;font-size:.75rem;background:var(--ground)}
.c{color:var(--comment)}.s{color:var(--string)}.n{color:var(--constant)}.k{color:var(--keyword)}.v{color:var(--name)}
pre code{background:none;padding:0;overflow-wrap:normal;font-size:1em}
.table{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;margin:.75rem 0;font-size:.92rem}th,td{text-align:left;vertical-align:top;padding:.4rem .75rem;border:1px solid var(--line)}
th{background:var(--code);font-weight:600}tr:target td,h1:target,h2:target,h3:target,h4:target{background:var(--mark)}
td:first-child code{overflow-wrap:normal;white-space:nowrap}td p{margin:0 0 .4rem}td p:last-child{margin:0}
.method{display:inline-block;min-width:4.2rem;padding:.05rem .45rem;margin-right:.4rem;border-radius:4px;font:600 .75rem/1.6 ui-monospace,monospace;
text-align:center;color:var(--ground);background:var(--accent)}
.operation{padding-top:.5rem}.operation>h2{border:0;font-size:1.15rem;margin-bottom:.2rem}
.soft{color:var(--soft)}.operations{list-style:none;padding:0}.operations li{margin:.25rem 0;max-width:none}
.results{list-style:none;padding:0}.results li{margin:1.1rem 0}.results p{margin:.15rem 0}mark{background:var(--mark);color:inherit}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:1rem}.cards section{border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem}
.cards h2{border:0;margin:0 0 .4rem;font-size:1rem}.cards ul{margin:0;padding-left:1.1rem}
.anchor{opacity:0;text-decoration:none;font-weight:400}:is(h2,h3,h4):hover .anchor,.anchor:focus{opacity:1}@media(hover:none){.anchor{opacity:1}}
.neighbours{display:flex;flex-wrap:wrap;gap:1rem;margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line)}
.neighbours a{flex:0 1 18rem;padding:.5rem .8rem;border:1px solid var(--line);border-radius:6px;text-decoration:none}
.neighbours span{display:block;font-size:.8rem}[rel=next]{margin-left:auto;text-align:right}
@media(max-width:75rem){.page{grid-template-columns:14rem minmax(0,1fr)}.contents{display:none}}
@media(max-width:48rem){.page{display:block;padding:0 1rem}.site{display:none}.site-small{display:block;margin-top:.75rem;border:1px solid var(--line);
border-radius:6px;padding:.4rem .75rem}header{flex-wrap:wrap;gap:.5rem;padding:.6rem 1rem}form{order:3;flex-basis:100%;max-width:none}
.home{margin-left:auto}h1{font-size:1.5rem}pre{padding:.6rem .75rem}.code pre{padding-top:2rem}.neighbours a{flex-basis:100%}.table table{min-width:36rem}}
@media print{header,.copy,.anchor,.neighbours,.site,.site-small,.contents{display:none}.page{display:block}}
`;
