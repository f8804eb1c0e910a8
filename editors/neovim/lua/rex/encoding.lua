-- Base64 and UTF-8 for what JSON cannot carry as text. (vim.base64 is of Neovim 0.10; this runs from 0.7.)
-- Must not know what the bytes are.
local bit = require('bit')
local M = {}

local ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
local value, letter = {}, {}
for i = 1, 64 do
  value[ALPHABET:byte(i)] = i - 1
  letter[i - 1] = ALPHABET:sub(i, i)
end

function M.to_base64(bytes)
  local out = {}
  for i = 1, #bytes, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    out[#out + 1] = letter[bit.rshift(n, 18)] .. letter[bit.band(bit.rshift(n, 12), 63)]
      .. (b and letter[bit.band(bit.rshift(n, 6), 63)] or '=') .. (c and letter[bit.band(n, 63)] or '=')
  end
  return table.concat(out)
end

-- `text` is what rex-rpc wrote: padded, without blanks.
function M.from_base64(text)
  local out = {}
  for i = 1, #text, 4 do
    local a, b, c, d = text:byte(i, i + 3)
    c, d = value[c], value[d]
    local n = value[a] * 262144 + value[b] * 4096 + (c or 0) * 64 + (d or 0)
    local first, second, third = bit.rshift(n, 16), bit.band(bit.rshift(n, 8), 255), bit.band(n, 255)
    out[#out + 1] = d and string.char(first, second, third) or c and string.char(first, second) or string.char(first)
  end
  return table.concat(out)
end

-- How many bytes follow this first byte, and the least and most that the first of them may be (RFC 3629).
local function follows(byte)
  if byte >= 0xC2 and byte <= 0xDF then return 1, 0x80, 0xBF end
  if byte >= 0xE0 and byte <= 0xEF then return 2, byte == 0xE0 and 0xA0 or 0x80, byte == 0xED and 0x9F or 0xBF end
  if byte >= 0xF0 and byte <= 0xF4 then return 3, byte == 0xF0 and 0x90 or 0x80, byte == 0xF4 and 0x8F or 0xBF end
end

function M.is_utf8(bytes)
  local at = bytes:find('[\128-\255]')
  while at do
    local more, least, most = follows(bytes:byte(at))
    if not more then return false end
    for i = 1, more do
      local byte = bytes:byte(at + i)
      if not byte or byte < (i == 1 and least or 0x80) or byte > (i == 1 and most or 0xBF) then return false end
    end
    at = bytes:find('[\128-\255]', at + more + 1)
  end
  return true
end

-- What `data` and `encoding` of an answer or notification mean.
function M.bytes_of(answer)
  return answer.encoding == 'base64' and M.from_base64(answer.data) or answer.data
end

-- `params` with `data` and `encoding` for these bytes.
function M.with_data(params, bytes)
  local plain = M.is_utf8(bytes)
  params.data = plain and bytes or M.to_base64(bytes)
  params.encoding = plain and 'utf-8' or 'base64'
  return params
end

-- `params` with an OS string as `member`, or as `memberBytes` where it is no text.
function M.with_name(params, member, bytes)
  if M.is_utf8(bytes) then
    params[member] = bytes
  else
    params[member .. 'Bytes'] = M.to_base64(bytes)
  end
  return params
end

-- An OS string out of an answer.
function M.name_of(answer, member)
  return answer[member] or M.from_base64(answer[member .. 'Bytes'])
end

-- What the far side says, made harmless for a message: without control characters.
function M.printable(text)
  return (tostring(text or ''):gsub('%c', ' '))
end

return M
