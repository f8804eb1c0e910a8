-- :RexRun: a command on a host, its output in the quickfix list while it comes, and its errors as places in files there.
-- Must not know how a host is reached.
local client = require('rex.client')
local encoding = require('rex.encoding')
local files = require('rex.files')
local hosts = require('rex.hosts')
local M = {}

local MAX_OUTPUT = 1024 * 1024 -- of a command, in the list; the middle of more is left out, and that is said

local running = {} -- progressToken -> function(text)
local last -- the handle of the newest run
local tokens = 0

client.on('$/progress', function(params)
  local take = running[params.token]
  if take and params.value.data then take(encoding.bytes_of(params.value)) end
end)

-- Runs a command in a shell of its own; done(err, RunResult). `take` is given output as it comes. Returns what cancels.
function M.start(host, cwd, command, take, done)
  tokens = tokens + 1
  local token, handle = 'run' .. tokens, {}
  local create = hosts.request(host, 'session/create', { cwd = cwd, startup = 'clean' }, function(err, info)
    if err then return done(err) end
    running[token] = take
    local inner = hosts.request(host, 'session/run', {
      session = info.session, command = command, stdin = 'empty', maxOutputBytes = MAX_OUTPUT, progressToken = token,
    }, function(problem, result)
      running[token] = nil
      done(problem, result)
      hosts.request(host, 'session/close', { session = info.session }, function() end)
    end)
    handle.cancel = function() hosts.cancel(inner) end
  end)
  handle.cancel = function() hosts.cancel(create) end
  return handle
end

-- One program to its end, for Lua: done(err, ProcessRunResult). Any number may be under way.
function M.process(host, params, done)
  return hosts.request(host, 'process/run', params, done)
end

-- ---------------------------------------------------------------- errors

-- Output in parts that share a directory: make says which one it enters and leaves.
local function by_directory(lines, cwd)
  local parts, stack = {}, { cwd }
  local part = { directory = cwd, lines = {} }
  for _, line in ipairs(lines) do
    local entered = line:match("Entering directory [`'\"](.-)['\"]")
    local changes = entered or line:find('Leaving directory', 1, true)
    part.lines[#part.lines + 1] = line
    if entered then
      stack[#stack + 1] = entered
    elseif changes and #stack > 1 then
      stack[#stack] = nil
    end
    if changes then
      parts[#parts + 1] = part
      part = { directory = stack[#stack], lines = {} }
    end
  end
  parts[#parts + 1] = part
  return parts
end

-- Vim makes buffers for the files it finds in messages, by names from its own directory. It is to stand in an empty one
-- meanwhile: what was relative is below that, and no file of this machine is taken for one of the host's.
local function in_empty_directory(use)
  local empty, before = vim.fn.tempname(), vim.fn.getcwd()
  vim.fn.mkdir(empty, 'p', 448)
  vim.cmd('noautocmd cd ' .. vim.fn.fnameescape(empty))
  local ok, result = pcall(use, vim.fn.getcwd() .. '/')
  vim.cmd('noautocmd cd ' .. vim.fn.fnameescape(before))
  vim.fn.delete(empty, 'd')
  if not ok then error(result, 0) end
  return result
end

-- Quickfix items of output, with the names that `name_of` gives to absolute paths on the host.
function M.parse(lines, cwd, efm, name_of)
  return in_empty_directory(function(empty)
    local items, known = {}, {}
    for _, buffer in ipairs(vim.api.nvim_list_bufs()) do known[buffer] = true end
    for _, part in ipairs(by_directory(lines, cwd)) do
      for _, item in ipairs(vim.fn.getqflist({ lines = part.lines, efm = efm }).items) do
        if item.bufnr ~= 0 then
          local path = vim.api.nvim_buf_get_name(item.bufnr)
          if vim.startswith(path, empty) then path = part.directory:gsub('/$', '') .. '/' .. path:sub(#empty + 1) end
          item.filename = name_of(path)
        end
        items[#items + 1] = item
      end
    end
    for _, item in ipairs(items) do
      if item.bufnr ~= 0 and not known[item.bufnr] and vim.api.nvim_buf_is_valid(item.bufnr) then
        vim.api.nvim_buf_delete(item.bufnr, { force = true })
      end
      item.bufnr = nil
    end
    return items
  end)
end

local function how_it_ended(result)
  if result.state == 'exited' or result.state == 'shellExited' and result.exitCode then return 'exit code ' .. result.exitCode end
  if result.signal then return result.state .. ' by signal ' .. result.signal end
  return result.state .. (result.exitCode and ', exit code ' .. result.exitCode or '')
end

local function lines_of(text)
  local lines = vim.split(text, '\n', { plain = true })
  if lines[#lines] == '' then lines[#lines] = nil end
  return lines
end

-- Runs a command into a quickfix list of its own. done(err, result) when the list is whole.
function M.run(host, cwd, command, done)
  local title = ('%s: %s'):format(host == '' and 'here' or host, command)
  vim.fn.setqflist({}, ' ', { title = title, items = {} })
  local id, efm, rest = vim.fn.getqflist({ id = 0 }).id, vim.o.errorformat, ''
  local function add(lines)
    vim.fn.setqflist({}, 'a', { id = id, items = vim.tbl_map(function(line) return { text = line } end, lines) })
  end
  vim.cmd('botright copen | wincmd p')
  local function name_of(path) return host == '' and path or files.join(host, path) end
  last = M.start(host, cwd, command, function(text)
    local lines = vim.split(rest .. text, '\n', { plain = true })
    rest = table.remove(lines)
    if #lines > 0 then add(lines) end
  end, function(err, result)
    result = result or (err.data or {}).result
    if result then
      local lines = lines_of(encoding.bytes_of({ data = result.output, encoding = result.encoding }))
      local items = M.parse(lines, cwd or result.cwd, efm, name_of)
      if result.omitted then
        items[#items + 1] = { text = ('[%d bytes are left out]'):format(result.omitted.bytes) }
      end
      items[#items + 1] = { text = ('[%s]'):format(err and err.message or how_it_ended(result)) }
      vim.fn.setqflist({}, 'r', { id = id, title = title, items = items })
    else
      add({ ('[%s]'):format(err.message) })
    end
    vim.notify(('rex: %s: %s'):format(title, err and err.message or how_it_ended(result)),
      (err or result.exitCode ~= 0) and vim.log.levels.WARN or vim.log.levels.INFO)
    if done then done(err, result) end
  end)
end

-- Interrupts, then terminates, then kills the command that was started last.
function M.stop()
  if last then last.cancel() end
end

return M
