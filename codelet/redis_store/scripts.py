"""The scripts that Redis runs, each whole and alone, and the names of the keys that they work on.

The keys of one session share a hash tag, so that a cluster keeps them in one place.
"""

from __future__ import annotations


def session_key(name: str) -> str:
    """The hash with the document, its revision, size and time."""
    return f"codelet:{{{name}}}:session"


def lock_key(name: str) -> str:
    """The lease: its holder's note, gone when it expires."""
    return f"codelet:{{{name}}}:lock"


def line_key(name: str) -> str:
    """The waiters for the lease: a hash from each one's ticket to its arrival and its deadline."""
    return f"codelet:{{{name}}}:line"


def name_of(key: bytes) -> str:
    """The session that a session key belongs to; raises UnicodeDecodeError where its name is no text."""
    return key.decode().removeprefix("codelet:{").removesuffix("}:session")


LOCK = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local arrival, first = now, now
local line = redis.call('HGETALL', KEYS[2])
for place = 1, #line, 2 do
  local came, deadline = string.match(line[place + 1], '^(%d+) (%d+)$')
  if not deadline or tonumber(deadline) < now then
    redis.call('HDEL', KEYS[2], line[place])
  elseif line[place] == ARGV[3] then
    arrival = tonumber(came)
  else
    first = math.min(first, tonumber(came))
  end
end
local held = redis.call('GET', KEYS[1])
if held or first < arrival then
  if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f %.0f', arrival, now + ARGV[4] * 1000))
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
  end
  return held or ''
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'locked'
"""
"""Keys: lock, line. Values: note, lease in ms, ticket or '', and how long it waits in ms. Returns 'locked', or the note
of the holder: '' if it is the turn of another who waits."""

RENEW = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
"""Keys: lock. Values: note, lease in ms. A lease that expired and that no one took is ours again."""

RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
"""Keys: lock. Values: note."""

SAVE = """
local held = redis.call('GET', KEYS[2])
if held and held ~= ARGV[6] then return held end
local current = redis.call('HGET', KEYS[1], 'revision')
if current and current ~= ARGV[1] and current ~= ARGV[2] and current ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[1], 'document', ARGV[8], 'revision', ARGV[7], 'size', ARGV[9], 'saved', ARGV[10])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[5]) else redis.call('PERSIST', KEYS[1]) end
redis.call('SET', KEYS[2], ARGV[6], 'PX', ARGV[4])
return 'saved'
"""
"""Keys: session, lock. Values: three revisions that may be in force, lease and time to live in ms (0: for ever), note,
new revision, document, its size, the time. Returns 'saved', or why not: 'changed', or the note of the lock's holder."""
