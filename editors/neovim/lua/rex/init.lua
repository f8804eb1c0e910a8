-- What a configuration and the commands call. Holds no logic of its own.
local M = {}

--- Options, all of them optional:
---   command  list: the program and its arguments ({'rex-rpc'})
---   hosts    {name = {url = ...} or {argv = {...}} or {deployment = ...}}: as host/connect takes them; a name with
---            slashes is a host behind others
---   shell    list: the argv of new shells; else the user's own shell there
---   patience_ms  how long :edit waits for a file (500)
function M.setup(options)
  options = options or {}
  vim.validate({
    command = { options.command, 'table', true },
    hosts = { options.hosts, 'table', true },
    shell = { options.shell, 'table', true },
    patience_ms = { options.patience_ms, 'number', true },
  })
  local client, files = require('rex.client'), require('rex.files')
  client.command = options.command or client.command
  require('rex.hosts').targets = vim.deepcopy(options.hosts or {})
  require('rex.terminal').shell = options.shell
  files.patience_ms = options.patience_ms or files.patience_ms
end

--- For a status line: hosts that are being dialled or are lost.
function M.status()
  return require('rex.hosts').status()
end

--- host, directory of what the current buffer shows; of an ordinary one "" and the current directory.
function M.place()
  local buffer = vim.api.nvim_get_current_buf()
  local host, path = require('rex.files').split(vim.api.nvim_buf_get_name(buffer))
  if host then return host, path:match('^(.*)/') ~= '' and path:match('^(.*)/') or '/' end
  host, path = require('rex.terminal').place(buffer)
  if host then return host, path end
  return '', vim.fn.getcwd()
end

-- The host and directory that an argument of a command means: `.` is where the current buffer is.
local function meant(word)
  if word == '.' then return M.place() end
  return require('rex.hosts').named(word), nil
end

local function failed(message)
  vim.notify('rex: ' .. message, vim.log.levels.ERROR)
end

M.commands = {
  Rex = function(command)
    local host, cwd = meant(command.args ~= '' and command.args or '.')
    require('rex.terminal').open(host, command.mods, cwd)
    vim.cmd('startinsert')
  end,
  RexAttach = function(command)
    require('rex.pick').find(command.args, function(err, host, session)
      if err then return failed(err.message) end
      require('rex.terminal').attach(host, session, command.mods, command.bang)
    end)
  end,
  RexTake = function(command) require('rex.terminal').take('writer', command.bang) end,
  RexWatch = function() require('rex.terminal').take('observer') end,
  RexReconnect = function() require('rex.terminal').reconnect() end,
  RexRun = function(command)
    local word, rest = command.args:match('^(%S+)%s+(.+)$')
    if not word then return failed(':RexRun HOST COMMAND, where . is the host of this buffer') end
    local host, cwd = meant(word)
    require('rex.run').run(host, cwd, rest)
  end,
  RexStop = function() require('rex.run').stop() end,
  RexPick = function() require('rex.pick').pick() end,
}

--- Names of hosts that begin so, for completion; what is not known within 200 ms is left out.
function M.complete(lead)
  local names
  require('rex.hosts').list(function(_, all) names = vim.tbl_keys(all or {}) end)
  vim.wait(200, function() return names end, 5)
  names = vim.tbl_filter(function(name) return vim.startswith(name, lead) end, names or {})
  table.sort(names)
  return names
end

return M
