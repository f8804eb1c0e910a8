-- :RexRun and what becomes of output; commands for Lua; the end of the program and of links.
local t = require('harness')
local same = t.same
local run = require('rex.run')
local files = require('rex.files')
local hosts = require('rex.hosts')

local function finished(command, cwd)
  local answer
  run.run(t.host, cwd or t.folder, command, function(err, result) answer = { err, result } end)
  t.until_(function() return answer end, command)
  return answer[2], answer[1]
end

local function name(path) return t.host == '' and path or files.join(t.host, path) end

local function places()
  local all = {}
  for _, item in ipairs(vim.fn.getqflist()) do
    if item.valid == 1 then
      all[#all + 1] = { vim.api.nvim_buf_get_name(item.bufnr), item.lnum, item.text }
    end
  end
  return all
end

t.test('errors are places in files of the host, by the directory that make was in', function()
  vim.fn.mkdir(t.folder .. '/src/deep', 'p')
  t.put('src/b.c', 'one\ntwo\n')
  local result = finished([[
    echo 'a.c:3:7: error: wrong'
    echo "make: Entering directory '$PWD/src'"
    echo 'b.c:2: warning: odd'
    echo "make: Entering directory '$PWD/src/deep'"
    echo 'c.c:1: error: bad'
    echo "make: Leaving directory '$PWD/src/deep'"
    echo '/abs/d.c:9: error: far'
    echo "make: Leaving directory '$PWD/src'"
    echo 'nothing to see'; exit 2]])
  same(result.exitCode, 2)
  same(places(), {
    { name(t.folder .. '/a.c'), 3, ' error: wrong' }, { name(t.folder .. '/src/b.c'), 2, ' warning: odd' },
    { name(t.folder .. '/src/deep/c.c'), 1, ' error: bad' }, { name('/abs/d.c'), 9, ' error: far' },
  })
  local list = vim.fn.getqflist()
  same(list[#list].text, '[exit code 2]')
  vim.cmd('2cc')
  vim.cmd('cc 3')
  same({ vim.api.nvim_buf_get_name(0), vim.fn.line('.') }, { name(t.folder .. '/src/b.c'), 2 })
end)

t.test('a message of several lines is one place, as the errorformat says', function()
  vim.o.errorformat = [[%A  File "%f"\, line %l,%Z    %m,%-G%.%#]]
  finished([[printf 'Traceback:\n  File "x.py", line 4\n    raise\nAssertionError: no\n']])
  same(places(), { { name(t.folder .. '/x.py'), 4, '\nraise' } })
  vim.cmd('set errorformat&')
end)

t.test('no buffer is left of a name that was only looked for, and none of this machine is taken for it', function()
  vim.cmd('edit ' .. t.folder .. '/local.c')
  local before = #vim.api.nvim_list_bufs()
  run.parse({ 'local.c:1: x', 'gone.c:2: y' }, '/far', vim.o.errorformat, function(path)
    assert(path == '/far/local.c' or path == '/far/gone.c', path)
    return path
  end)
  same(#vim.api.nvim_list_bufs(), before)
end)

t.test('output is in the list while the command runs, and :RexStop ends it', function()
  local answer
  run.run(t.host, t.folder, 'echo begun; sleep 1000', function(err, result) answer = { err, result } end)
  t.until_(function() return (vim.fn.getqflist()[1] or {}).text == 'begun' end, 'output while it runs')
  same(answer, nil)
  vim.cmd('RexStop')
  t.until_(function() return answer end)
  same(answer[1].data.type, 'RequestCancelled')
  local list = vim.fn.getqflist()
  same({ list[1].text, list[#list].text:match('cancelled') }, { 'begun', 'cancelled' })
end)

t.test('a command that reads finds nothing, and one that fails by a signal or a syntax error says so', function()
  same(finished('read x || echo nothing').output, 'nothing\n')
  same(finished('if then').syntaxError ~= nil, true)
  same(finished('kill -9 $$').state, 'shellExited')
end)

t.test('twenty commands are sent before the first is answered', function()
  -- Each ends when all have begun: sent one after the other, the first would wait for ever.
  local ended = 0
  vim.fn.mkdir(t.folder .. '/burst')
  for i = 1, 20 do
    local command = ('touch %d; while [ "$(ls | wc -l)" -lt 20 ]; do sleep 0.02; done'):format(i)
    run.process(t.host, { command = command, cwd = t.folder .. '/burst' }, function(err, result)
      ended = ended + (not err and result.exitCode == 0 and 1 or 0)
    end)
  end
  t.until_(function() return ended == 20 end)
end)

t.test('a program that is not there is said, with what to do', function()
  local client = require('rex.client')
  local command = client.command
  client.stop()
  client.command = { '/no/such/rex-rpc' }
  local err
  client.request('ping', {}, function(problem) err = problem end)
  t.until_(function() return err end)
  same({ err.data.type, err.message:find('checkhealth', 1, true) ~= nil }, { 'ClientLost', true })
  client.command = command
end)

t.test('a program that ends answers every request by that, and the next use starts another', function()
  local client = require('rex.client')
  local err, again
  hosts.request('', 'process/run', { command = 'sleep 1000' }, function(problem) err = problem end)
  t.until_(function() return client.instance end)
  vim.loop.kill(tonumber(client.instance:match('^%d+')), 'sigkill')
  t.until_(function() return err end)
  same(err.data.type, 'ClientLost')
  hosts.request(t.host, 'process/run', { command = 'echo again' }, function(_, result) again = result end)
  t.until_(function() return again end)
  same(again.stdout, 'again\n')
end)

if t.host ~= '' then
  t.test('a dropped link is told, what waits on it is answered, and the next use reaches the host again', function()
    local nested
    local parent, last = t.host:match('^(.*)/(.*)$')
    hosts.request(t.host, 'ping', {}, function()
      hosts.request(parent, 'host/info', { name = last }, function(_, info) nested = info.machine.instance:match('^%d+') end)
    end)
    t.until_(function() return nested end)
    local err, again
    local begun = t.folder .. '/begun' -- what has not begun would begin on the host that is dialled again
    hosts.request(t.host, 'process/run', { command = 'touch ' .. begun .. '; sleep 1000' }, function(problem) err = problem end)
    t.until_(function() return vim.loop.fs_stat(begun) end)
    vim.loop.kill(tonumber(nested), 'sigkill')
    t.until_(function() return err end)
    same(err.data.type, 'HostLost')
    t.noticed('host ' .. t.host .. ' is lost')
    vim.cmd('edit ' .. t.url('after')) -- dials anew
    same(vim.b.rex_failed, nil)
    hosts.request(t.host, 'process/run', { command = 'echo again' }, function(_, result) again = result end)
    t.until_(function() return again end)
    same(again.stdout, 'again\n')
  end)
end

t.test('the help has a tag for each command', function()
  local plugin = vim.api.nvim_get_runtime_file('doc/rex.txt', false)[1]
  vim.fn.mkdir(t.folder .. '/doc')
  vim.fn.writefile(vim.fn.readfile(plugin), t.folder .. '/doc/rex.txt')
  vim.cmd('helptags ' .. t.folder .. '/doc')
  local tags = t.bytes('doc/tags')
  for name in pairs(require('rex').commands) do assert(tags:find(':' .. name .. '\t', 1, true), name) end
end)

t.test('the health check says what is there', function()
  vim.cmd('checkhealth rex')
  local text = table.concat(t.lines(), '\n')
  for _, part in ipairs({ 'OK Neovim', 'it answers' }) do
    assert(text:gsub(':', ''):find(part, 1, true), text)
  end
  assert(not text:find('ERROR'), text)
end)

t.finish()
