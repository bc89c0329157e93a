/*
 * The keys of a workspace's mirror in Redis, all under one hash tag, so that a cluster keeps them together:
 *
 * - `acp:2:{<workspace>:<log>}`, a hash. `2` is the form of the members, so two versions of the service never mix. `<log>`
 *   begins the hash of the log's first leaf, so two databases never mix. `@gen` names this recording, `@seq` is the index up to
 *   which it is complete, `@leaf` the leaf hash before that index, `@since` the time after which no decision is missing. A
 *   field for each agent: how many members its set has, and the time of its last.
 * - `acp:2:{<workspace>:<log>}:<gen>:<agent>`, a sorted set: the agent's decisions by time, as
 *   `<index> <decision><principal> <type>`.
 *
 * INVARIANT: a set and the number of its members are written by one script and change by the same amounts. So a set that
 * lost members, by eviction, expiry or a hand, has fewer than its number from then on, however it grows and is trimmed;
 * a set that is gone counts as empty. A script that sees a difference unlinks the hash, which ends the recording: the sets
 * that are left can no longer be reached, and expire. The hash is one key, so it is complete or absent.
 *
 * A Redis that comes back with an older copy has hash and sets of one moment; it merely lies behind. `@leaf` must be in
 * the log at its index: every leaf commits to all before it, so a log that was restored and went on differently differs.
 */

/** Fields of the hash that do not belong to an agent. */
export const FIELDS = { gen: "@gen", since: "@since", seq: "@seq", leaf: "@leaf" } as const;

/** Reply of a script whose recording has ended. */
export const LOST = "lost";

/**
 * Begins a recording in place of another one, or of none. Keys: hash. Arguments: the recording that it takes the place of
 * or an empty text, new recording, time, index, leaf hash before it, time to live in milliseconds. Does nothing when
 * another process was first.
 */
export const BEGIN = `
if (redis.call('HGET', KEYS[1], '@gen') or '') ~= ARGV[1] then return 'moved' end
redis.call('UNLINK', KEYS[1])
redis.call('HSET', KEYS[1], '@gen', ARGV[2], '@since', ARGV[3], '@seq', ARGV[4], '@leaf', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 'done'
`;

/**
 * Adds a stretch of the log, if the recording ends where it begins. Keys: hash, then the set of each agent. Arguments:
 * recording, index and leaf hash before which it must end, index and leaf hash after the stretch, time up to which members
 * go, time to live in milliseconds, then for each set its agent, how many members come, and time and member of each.
 */
export const APPEND = `
local meta = redis.call('HMGET', KEYS[1], '@gen', '@seq', '@leaf', '@since')
if meta[1] ~= ARGV[1] then return 'lost' end
if meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then return 'moved' end
local at = 8
for set = 2, #KEYS do
  local agent, more = ARGV[at], tonumber(ARGV[at + 1])
  local members = {}
  for i = 1, more * 2 do members[i] = ARGV[at + 1 + i] end
  at = at + 2 + more * 2
  local known = redis.call('HGET', KEYS[1], agent)
  local count = known and tonumber(string.match(known, '^%d+')) or 0
  count = count + redis.call('ZADD', KEYS[set], unpack(members))
  count = count - redis.call('ZREMRANGEBYSCORE', KEYS[set], '-inf', ARGV[6])
  if redis.call('ZCARD', KEYS[set]) ~= count then
    redis.call('UNLINK', KEYS[1])
    return 'lost'
  end
  redis.call('HSET', KEYS[1], agent, count .. ' ' .. members[more * 2 - 1])
  redis.call('PEXPIRE', KEYS[set], ARGV[7])
end
local since = meta[4]
if tonumber(ARGV[6]) > tonumber(since) then since = ARGV[6] end
redis.call('HSET', KEYS[1], '@seq', ARGV[4], '@leaf', ARGV[5], '@since', since)
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return 'done'
`;

/**
 * Gives the members of sets with their times. Keys: hash, then the set of each agent. Arguments: recording, then the
 * agents.
 */
export const READ = `
if redis.call('HGET', KEYS[1], '@gen') ~= ARGV[1] then return 'lost' end
local all = {}
for set = 2, #KEYS do
  local members = redis.call('ZRANGE', KEYS[set], 0, -1, 'WITHSCORES')
  local known = redis.call('HGET', KEYS[1], ARGV[set])
  if not known or tonumber(string.match(known, '^%d+')) ~= #members / 2 then
    redis.call('UNLINK', KEYS[1])
    return 'lost'
  end
  all[set - 1] = members
end
return all
`;

/**
 * Forgets agents without a decision after a time. Keys: hash, then the set of each agent. Arguments: recording, the time,
 * then the agents.
 */
export const FORGET = `
local meta = redis.call('HMGET', KEYS[1], '@gen', '@since')
if meta[1] ~= ARGV[1] then return 'lost' end
if tonumber(ARGV[2]) > tonumber(meta[2]) then redis.call('HSET', KEYS[1], '@since', ARGV[2]) end
for set = 2, #KEYS do
  local known = redis.call('HGET', KEYS[1], ARGV[set + 1])
  if known and tonumber(string.match(known, '%d+$')) <= tonumber(ARGV[2]) then
    redis.call('UNLINK', KEYS[set])
    redis.call('HDEL', KEYS[1], ARGV[set + 1])
  end
end
return 'done'
`;
