-- Choosing among hosts and sessions, also those of agents; finding sessions of other instances by the command
-- `rex-rpc sessions`, and reaching them by their sockets as hosts.
local client = require('rex.client')
local encoding = require('rex.encoding')
local hosts = require('rex.hosts')
local terminal = require('rex.terminal')
local M = {}

local function runtime_directory()
  local given = vim.env.XDG_RUNTIME_DIR
  local stat = given and vim.startswith(given, '/') and vim.loop.fs_stat(given)
  if stat and stat.type == 'directory' and stat.uid == vim.loop.getuid() then return given .. '/rex-rpc' end
  return '/tmp/rex-rpc-' .. vim.loop.getuid()
end

-- Sessions of every other instance of this user on this machine; done(err, list of SessionInfo with `instance`).
function M.others(done)
  local out = {}
  local command = { client.command[1], 'sessions', '--json' }
  local ok, job = pcall(vim.fn.jobstart, command, {
    stdout_buffered = true,
    on_stdout = function(_, lines) out = lines end,
    on_exit = function()
      local decoded, all = pcall(vim.json.decode, table.concat(out, '\n'), { luanil = { object = true, array = true } })
      if not decoded then return done({ message = 'rex-rpc sessions gave no list' }) end
      done(nil, vim.tbl_filter(function(info) return info.instance ~= client.instance end, all))
    end,
  })
  if not ok or job <= 0 then done({ message = 'cannot start ' .. command[1] .. '; see :checkhealth rex' }) end
end

-- One that has ended need not be looked for: its name is never given again.
local instances = {} -- name -> true
table.insert(hosts.lost, function(host, _, again)
  if again and instances[host] then client.request('host/disconnect', { name = host }, function() end) end
end)

-- The host by which an instance is reached.
function M.instance_host(instance)
  instances[instance] = true
  hosts.targets[instance] = { url = ('unix://%s/%s.sock'):format(runtime_directory(), instance), install = false }
  return instance
end

local function state_of(info)
  local words = info.state
  if info.waiting then words = words .. ': ' .. encoding.printable(info.waiting.text) end
  if info.foreground then words = words .. ' · ' .. encoding.printable(info.foreground.command) end
  return words .. (info.writer and ' · typed into by ' .. encoding.printable(info.writer) or '')
end

-- The session that `name` means, [INSTANCE/]SESSION as `rex-rpc shell` takes it; done(err, host, session).
function M.find(name, done)
  M.others(function(err, all)
    if err then return done(err) end
    local found = vim.tbl_filter(function(info)
      local instance, session = name:match('^([^/]*)/(.*)$')
      return info.session == name or session == info.session and vim.startswith(info.instance, instance)
    end, all)
    if #found == 1 then return done(nil, M.instance_host(found[1].instance), found[1].session) end
    local names = vim.tbl_map(function(info) return info.instance .. '/' .. info.session end, #found > 0 and found or all)
    done({ message = ('%s %s%s'):format(#found > 0 and 'which of these is' or 'no session', name,
      #names > 0 and ': ' .. table.concat(names, ', ') or '; there is none at all') })
  end)
end

-- Everything that can be opened: done(err, list of {text, open}).
function M.choices(done)
  hosts.list(function(err, all, detail)
    if err then return done(err) end
    if detail then vim.notify('rex: ' .. encoding.printable(detail), vim.log.levels.WARN) end
    local choices = { { text = 'new shell here', open = function() terminal.open('', '') end } }
    local names = vim.tbl_keys(all)
    table.sort(names)
    for _, name in ipairs(names) do
      local instance = (hosts.targets[name] or {}).url or ''
      if not (vim.startswith(instance, 'unix://' .. runtime_directory())) then
        choices[#choices + 1] = {
          text = ('new shell on %s (%s)'):format(name, all[name].state),
          open = function() terminal.open(name, '') end,
        }
      end
    end
    M.others(function(problem, sessions)
      if problem then return done(problem) end
      for _, info in ipairs(sessions) do
        choices[#choices + 1] = {
          text = ('watch %s/%s (%s)'):format(info.instance, info.session, state_of(info)),
          open = function() terminal.attach(M.instance_host(info.instance), info.session, '', false) end,
        }
      end
      done(nil, choices)
    end)
  end)
end

function M.pick()
  M.choices(function(err, choices)
    if err then return vim.notify('rex: ' .. err.message, vim.log.levels.ERROR) end
    vim.ui.select(choices, { prompt = 'Rex', format_item = function(choice) return choice.text end }, function(choice)
      if choice then choice.open() end
    end)
  end)
end

return M
