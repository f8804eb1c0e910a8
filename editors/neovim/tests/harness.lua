-- What the specs share: the editor under test, set up for $REX_TEST_HOPS hosts behind each other, and its verdicts.
-- A spec is run by test_neovim.py in a Neovim of its own: one line a test, and an exit code.
local M = { deadline = 60000 }

local command = vim.json.decode(vim.env.REX_TEST_COMMAND) -- what the editor starts: the program behind a counter
local program = vim.env.REX_RPC
local hops = tonumber(vim.env.REX_TEST_HOPS)

M.folder = vim.env.REX_TEST_FOLDER
M.host = hops == 0 and '' or vim.trim(('hop '):rep(hops)):gsub(' ', '/')
local targets, path = {}, ''
for _ = 1, hops do
  path = path == '' and 'hop' or path .. '/hop'
  targets[path] = { argv = { program } }
end
require('rex').setup({ command = command, hosts = targets, patience_ms = M.deadline })

M.notices = {}
vim.notify = function(text) table.insert(M.notices, text) end

local failures = 0

function M.test(name, body)
  M.notices = {}
  local ok, problem = xpcall(body, debug.traceback)
  failures = failures + (ok and 0 or 1)
  io.stdout:write(ok and 'ok ' or 'FAILED ', name, ok and '' or ': ' .. problem .. table.concat(M.notices, '\n'), '\n')
  vim.cmd('silent! %bwipeout!')
end

function M.finish()
  vim.cmd(failures == 0 and 'qall!' or 'cquit')
end

function M.same(got, expected)
  if not vim.deep_equal(got, expected) then
    error(('got %s, not %s'):format(vim.inspect(got), vim.inspect(expected)), 2)
  end
end

-- Waits for a fact.
function M.until_(fact, what)
  if not vim.wait(M.deadline, fact, 5) then error('never: ' .. (what or 'what was waited for'), 2) end
end

function M.noticed(text)
  M.until_(function() return table.concat(M.notices, '\n'):find(text, 1, true) end, text .. vim.inspect(M.notices))
end

-- How long nothing is to be asked: a time in which nothing is to happen has no event to wait for.
M.idle_ms = (vim.env.REX_LONG or '') ~= '' and 60000 or 1000

-- What the editor has asked of the program so far, by method.
function M.asked()
  local counts, total = {}, 0
  for line in io.lines(vim.env.REX_TEST_COUNTS) do
    counts[line] = (counts[line] or 0) + 1
    total = total + 1
  end
  return counts, total
end

-- What `body` asks, as {method = count}.
function M.asks(body)
  local before = M.asked()
  body()
  local asked = {}
  for method, count in pairs((M.asked())) do
    local more = count - (before[method] or 0)
    if more > 0 then asked[method] = more end
  end
  return asked
end

function M.url(name) return require('rex.files').join(M.host, M.folder .. '/' .. name) end

function M.bytes(name)
  local file = assert(io.open(M.folder .. '/' .. name, 'rb'))
  local all = file:read('*a')
  file:close()
  return all
end

function M.put(name, bytes)
  local file = assert(io.open(M.folder .. '/' .. name, 'wb'))
  file:write(bytes)
  file:close()
end

function M.lines() return vim.api.nvim_buf_get_lines(0, 0, -1, false) end

return M
