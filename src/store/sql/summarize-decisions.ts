import { IS_COUNTED } from "./read-decisions.ts";
import { BODY_AS_JSON } from "./sealed-body.ts";

/*
 * The statements of a summary of decisions. They run one after the other in one READ ONLY snapshot. None of them reads the rows
 * of the decisions that it counts: what the two indexes include is enough.
 */

/**
 * Finds for each of some times the first index whose entry is later, or the size of the log, in the order of the times. Searches
 * as `findFirstAfter` does. Parameters: workspace, times in epoch milliseconds, size of the log.
 */
export const findFirstsAfter = {
  name: "find-firsts-after",
  text: `select (
      with recursive search (low, high) as (
        select 0::bigint, $3::bigint
        union all
        select
          case when e.at_ms > asked.at_ms then s.low else (s.low + s.high) / 2 + 1 end,
          case when e.at_ms > asked.at_ms then (s.low + s.high) / 2 else s.high end
        from search s join ledger_entry e on e.workspace_id = $1 and e.seq = (s.low + s.high) / 2
        where s.low < s.high
      )
      select low from search where low >= high limit 1
    )::float8 as seq
    from unnest($2::bigint[]) with ordinality as asked (at_ms, place) order by place`,
};

const BUCKET = `(width_bucket(seq, $4::bigint[]) - 1)::integer as bucket`;

/**
 * Counts by bucket the entries between two indexes that are not allowed decisions: blocked and escalated decisions that count,
 * and all such entries. The rest of a bucket are allowed decisions. The condition MUST equal that of the index
 * `ledger_entry_event`. Parameters: workspace, first index, index to stop before, first index of each bucket.
 */
export const countRefusals = {
  name: "count-refusals",
  text: `select ${BUCKET}, count(*) filter (where kind = 0 and decision = 2)::float8 as block,
      count(*) filter (where kind = 0 and decision = 3)::float8 as escalate, count(*)::float8 as entries
    from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and (kind = 1 or decision >= 2) group by 1`,
};

/** Counts by bucket the decisions of one agent. Parameters: as `countRefusals`, then the agent. */
export const countDecisionsOfAgent = {
  name: "count-decisions-of-agent",
  text: `select ${BUCKET}, count(*) filter (where kind = 0 and decision = 1)::float8 as allow,
      count(*) filter (where kind = 0 and decision = 2)::float8 as block,
      count(*) filter (where kind = 0 and decision = 3)::float8 as escalate
    from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and kind in (0, 2) and agent_id = $5 group by 1`,
};

// Only bodies that may hold reasons are parsed: most decisions allow, and no mandate observes them.
const countReasons = (decisions: string): string => `with looked as materialized (
    select case when decision >= 2 then coalesce(${BODY_AS_JSON} -> 'reasons', '[{"code":"DEFAULT"}]') end as reasons,
      case when strpos(body, '"observed":[') > 0 then ${BODY_AS_JSON} -> 'observed' end as observed,
      case when strpos(body, '"mandates":[') > 0 then ${BODY_AS_JSON} -> 'mandates' end as mandates
    from (select seq, decision, body from ledger_entry where ${decisions} order by seq desc limit $4) newest
  )
  select (select count(*)::float8 from looked) as looked,
    (select coalesce(json_agg(each), '[]') from (
      select r.code, r.mandate_id as "mandateId", max(r.mandate_name) as "mandateName", r.rule, count(*) as count
      from looked cross join lateral json_to_recordset(looked.reasons)
        as r (code text, mandate_id text, mandate_name text, rule text)
      group by r.code, r.mandate_id, r.rule order by count(*) desc, r.code, r.mandate_id, r.rule limit $5
    ) each) as reasons,
    (select coalesce(json_agg(each), '[]') from (
      select o.mandate_id as "mandateId", max(o.reasons -> 0 ->> 'mandate_name') as "mandateName", o.version,
        count(*) filter (where o.would_decide = 'block') as "wouldBlock",
        count(*) filter (where o.would_decide = 'escalate') as "wouldEscalate"
      from looked cross join lateral json_to_recordset(looked.observed)
        as o (mandate_id text, version integer, would_decide text, reasons json)
      group by o.mandate_id, o.version order by count(*) desc, o.mandate_id, o.version limit $6
    ) each) as observed,
    (select coalesce(json_agg(each), '[]') from (
      select m.mandate_id as "mandateId", count(*) filter (where m.decision = 'allow') as allow,
        count(*) filter (where m.decision = 'block') as block, count(*) filter (where m.decision = 'escalate') as escalate
      from looked cross join lateral json_to_recordset(looked.mandates) as m (mandate_id text, decision text)
      group by m.mandate_id order by count(*) desc, m.mandate_id limit $7
    ) each) as firings`;

/**
 * Reads the most frequent reasons of blocked and escalated decisions, the decisions that observing mandates would have made, and
 * the mandates that fired, from the newest decisions between two indexes. Parameters: workspace, first index, index to stop
 * before, most decisions, most reasons, most versions of observing mandates, most mandates that fired.
 */
export const readTopReasons = {
  name: "read-top-reasons",
  text: countReasons(`workspace_id = $1 and seq >= $2 and seq < $3 and ${IS_COUNTED}`),
};

/** Reads the same for one agent. Parameters: as `readTopReasons`, then the agent. */
export const readTopReasonsOfAgent = {
  name: "read-top-reasons-of-agent",
  text: countReasons("workspace_id = $1 and seq >= $2 and seq < $3 and kind in (0, 2) and kind <> 2 and agent_id = $8"),
};
