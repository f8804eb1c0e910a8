-- :checkhealth rex
local M = {}

-- Their names are report_* before 0.10.
local function report(kind, ...)
  local health = vim.health or require('health')
  local say = health[kind] or health['report_' .. kind]
  say(...)
end

function M.check()
  report('start', 'rex')
  local client = require('rex.client')
  local version = vim.version()
  if vim.fn.has('nvim-0.7') == 1 then
    report('ok', ('Neovim %d.%d.%d'):format(version.major, version.minor, version.patch))
  else
    report('error', 'Neovim 0.7 or newer is needed')
  end
  if vim.fn.executable(client.command[1]) == 0 then
    return report('error', client.command[1] .. ' is not executable',
      { "put rex-rpc into your $PATH, or name it: require('rex').setup({command = {'/path/to/rex-rpc'}})" })
  end
  report('ok', vim.fn.exepath(client.command[1]) .. ': ' .. vim.trim(vim.fn.system({ client.command[1], '--version' })))
  local err, pong
  client.request('ping', {}, function(problem, result) err, pong = problem, result end)
  vim.wait(5000, function() return err or pong end, 10)
  if not pong then return report('error', err and err.message or 'no answer within 5 s') end
  report('ok', 'it answers, as instance ' .. client.instance)
  local listed, all, detail
  require('rex.hosts').list(function(_, hosts, why) listed, all, detail = true, hosts or {}, why end)
  vim.wait(5000, function() return listed end, 10)
  if detail then report('warn', detail) end
  for name, info in pairs(all or {}) do
    report(info.state == 'lost' and 'warn' or 'info', ('host %s: %s'):format(name, info.state))
  end
end

return M
