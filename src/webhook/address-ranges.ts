import { BlockList, isIP } from "node:net";

// IANA's special-purpose registries: everything outside the public internet, or that may lead there.
const REFUSED_4 = [
  "0.0.0.0/8", // this host
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link-local, with the metadata services of clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
];
const REFUSED_6 = [
  "::/96", // unspecified, loopback, IPv4-compatible
  "::ffff:0:0/96", // IPv4-mapped
  "::ffff:0:0:0/96", // IPv4-translated
  "64:ff9b::/96", // NAT64
  "64:ff9b:1::/48", // NAT64 of a network's own
  "100::/64", // discard
  "2001::/23", // protocol assignments, with Teredo
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4
  "3fff::/20", // documentation
  "5f00::/16", // segment routing
  "fc00::/7", // unique local
  "fe80::/10", // link-local
  "fec0::/10", // site-local
  "ff00::/8", // multicast
];

type Contains = (address: string) => boolean;

/** Creates a test for addresses in any of the CIDR blocks. */
function containsAny(blocks: readonly string[]): Contains {
  // One list for each family, since a common list counts every IPv4 address as part of `::ffff:0:0/96`.
  const lists = { 4: new BlockList(), 6: new BlockList() };
  for (const block of blocks) {
    const [network = "", bits = ""] = block.split("/");
    const family = isIP(network);
    if (family === 4 || family === 6) lists[family].addSubnet(network, Number(bits), `ipv${family}`);
  }
  return (address) => {
    const family = isIP(address);
    return (family === 4 || family === 6) && lists[family].check(address, `ipv${family}`);
  };
}

/**
 * Creates the test for allowed addresses of requests: public addresses, and addresses in a CIDR block of `allow`. It refuses
 * anything that is not an address, and addresses with a zone (`fe80::1%eth0`).
 */
export function createAddressTest(allow: readonly string[]): Contains {
  const isRefused = containsAny([...REFUSED_4, ...REFUSED_6]);
  const isAllowed = containsAny(allow);
  return (address) => isIP(address) !== 0 && !address.includes("%") && (isAllowed(address) || !isRefused(address));
}
