-- Commands and rex:// buffers. Loads nothing until one of them is used.
if vim.g.loaded_rex then return end
vim.g.loaded_rex = true
if vim.fn.has('nvim-0.7') == 0 then
  return vim.api.nvim_err_writeln('rex needs Neovim 0.7 or newer')
end

local function hosts(lead) return require('rex').complete(lead) end
local commands = {
  Rex = { nargs = '?', complete = hosts, desc = 'A shell on a host' },
  RexAttach = { nargs = 1, bang = true, desc = 'Watch a session of another program; with ! type into it' },
  RexTake = { nargs = 0, bang = true, desc = 'Type into the session of this buffer; with ! whoever does now' },
  RexWatch = { nargs = 0, desc = 'Only watch the session of this buffer' },
  RexReconnect = { nargs = 0, desc = 'Go on with the session of this buffer that was cut off' },
  RexRun = { nargs = '+', complete = hosts, desc = 'Run a command on a host, into the quickfix list' },
  RexStop = { nargs = 0, desc = 'Stop the command that :RexRun started last' },
  RexPick = { nargs = 0, desc = 'Choose among hosts and sessions' },
}
for name, options in pairs(commands) do
  vim.api.nvim_create_user_command(name, function(command) require('rex').commands[name](command) end, options)
end

local group = vim.api.nvim_create_augroup('rex', {})
local function on(events, pattern, callback)
  vim.api.nvim_create_autocmd(events, { group = group, pattern = pattern, callback = callback })
end
on('BufReadCmd', 'rex://*', function(args) require('rex.files').read(args.buf, args.match) end)
on('FileReadCmd', 'rex://*', function(args) require('rex.files').insert(args.match) end)
on('BufWriteCmd', 'rex://*', function(args)
  local as = { pattern = args.match, modeline = false }
  vim.api.nvim_exec_autocmds('BufWritePre', as)
  local written = require('rex.files').write(args.buf, args.match, 1, vim.api.nvim_buf_line_count(args.buf),
    vim.v.cmdbang == 1)
  if written then vim.api.nvim_exec_autocmds('BufWritePost', as) end
end)
on('FileWriteCmd', 'rex://*', function(args)
  require('rex.files').write(args.buf, args.match, vim.fn.line("'["), vim.fn.line("']"), vim.v.cmdbang == 1)
end)
on({ 'VimResized', 'WinEnter', 'BufWinEnter', 'WinScrolled', 'WinClosed' }, '*', function()
  if package.loaded['rex.terminal'] then vim.schedule(require('rex.terminal').fit_all) end
end)
on('VimLeavePre', '*', function()
  if package.loaded['rex.terminal'] then require('rex.terminal').leave() end
  if package.loaded['rex.client'] then require('rex.client').stop() end
end)
