"""The scripts that Redis runs, each whole and alone, and the names of the keys that they work on.

The keys of one session share a hash tag, so that a cluster keeps them in one place.
"""

from __future__ import annotations


def session_key(name: str) -> str:
    """The hash with the document, its revision, size, time and fencing token."""
    return f"codelet:{{{name}}}:session"


def lock_key(name: str) -> str:
    """The lease: its holder's note, gone when it expires."""
    return f"codelet:{{{name}}}:lock"


def fence_key(name: str) -> str:
    """The last fencing token that was given out."""
    return f"codelet:{{{name}}}:fence"


def name_of(key: bytes) -> str:
    """The session that a session key belongs to; raises UnicodeDecodeError where its name is no text."""
    return key.decode().removeprefix("codelet:{").removesuffix("}:session")


def of_one_session(key: bytes) -> bytes:
    """The key of the lock that belongs to a session key, whatever its name is made of."""
    return key.removesuffix(b":session") + b":lock"


_FENCE = """
local function token(value)
  local number = tonumber(value or '0')
  if number and number >= 0 and number < 2^53 and number % 1 == 0 then return number end
  return 0
end
"""
"""Whoever may write the database may put anything there: what no token can be counts as none."""

LOCK = (
    _FENCE
    + """
local held = redis.call('GET', KEYS[1])
if held then return {0, held} end
local fence = math.max(token(redis.call('GET', KEYS[2])), token(redis.call('HGET', KEYS[3], 'fence'))) + 1
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {fence, ''}
"""
)
"""Keys: lock, fence, session. Values: note, lease and time to keep the token in ms.
Returns {token, ''}, or {0, the holder's note}.
"""

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

SAVE = (
    _FENCE
    + """
local held = redis.call('GET', KEYS[2])
if held and held ~= ARGV[7] then return held end
local current = redis.call('HGET', KEYS[1], 'revision')
local fence = token(current and redis.call('HGET', KEYS[1], 'fence') or redis.call('GET', KEYS[3]))
if fence > tonumber(ARGV[4]) then return 'fenced' end
if current and current ~= ARGV[1] and current ~= ARGV[2] and current ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[1], 'document', ARGV[9], 'revision', ARGV[8], 'size', ARGV[10], 'saved', ARGV[11],
  'fence', ARGV[4])
if tonumber(ARGV[6]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[6]) else redis.call('PERSIST', KEYS[1]) end
redis.call('SET', KEYS[2], ARGV[7], 'PX', ARGV[5])
return 'saved'
"""
)
"""Keys: session, lock, fence. Values: three revisions that may be in force, fencing token, lease and time to live in ms
(0: for ever), note, new revision, document, its size, the time. Returns 'saved', or why not: 'changed', 'fenced' or
the note of whoever holds the lock. The token beside it counts where the session is gone: someone removed it."""
