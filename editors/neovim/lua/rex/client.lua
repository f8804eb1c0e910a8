-- The editor's one rex-rpc, and JSON-RPC 2.0 over its standard input and output, one message a line.
-- Must not know buffers, windows, or any method beside initialize and $/cancelRequest. Callbacks run on the main loop,
-- in the order in which their messages came.
local uv = vim.loop
local M = {
  command = { 'rex-rpc' },
  handlers = {}, -- notification -> list of function(params)
  answerers = {}, -- request of the server -> function(params, reply), reply(result) or reply(nil, message)
  instance = nil, -- what the program calls itself, once it has answered
  closed = {}, -- list of function(why): the program has ended
}

local MAX_MESSAGE = 32 * 1024 * 1024 -- rex-rpc writes no longer one: `frameBytes` is 16 MiB
local MAX_STDERR = 4096 -- of what it logged, the end that is shown should it die

local child -- {process, stdin, pending, next_id, ...} while it runs

local function encode(message)
  return vim.json.encode(message) .. '\n'
end

local function lost(why)
  return { code = 0, message = why, data = { type = 'ClientLost', executed = 'unknown', retryable = true } }
end

local function write(to, message)
  to.stdin:write(encode(message))
end

local function call_all(list, ...)
  for _, each in ipairs(list or {}) do each(...) end
end

local function answer(from, message)
  local function reply(result, problem)
    if from ~= child then return end -- it has ended meanwhile
    local error = problem and { code = -32800, message = problem } or nil
    write(from, { jsonrpc = '2.0', id = message.id, result = not error and result or nil, error = error })
  end
  local answerer = M.answerers[message.method]
  if not answerer then return reply(nil, 'not offered by this client') end
  answerer(message.params or {}, reply)
end

local function handle(from, line)
  local ok, message = pcall(vim.json.decode, line, { luanil = { object = true, array = true } })
  if not ok then return end -- an answer that is none: its request ends with the program
  if message.method and message.id ~= nil then return answer(from, message) end
  if message.method then return call_all(M.handlers[message.method], message.params or {}) end
  local done = from.pending[message.id]
  if done then
    from.pending[message.id] = nil
    done(message.error, message.result)
  end
end

local function ended(which)
  if which.ended or not (which.exit and which.eof) then return end
  which.ended = true
  local why = ('rex-rpc has ended (%s)%s'):format(which.exit, which.log ~= '' and ': ' .. vim.trim(which.log) or '')
  if child == which then child, M.instance = nil, nil end
  local pending = which.pending
  which.pending = {}
  for _, done in pairs(pending) do done(lost(why)) end
  if not which.asked_to_end then call_all(M.closed, why) end
end

-- Eats what came on stdout: whole lines are handled on the main loop, the rest waits.
local function reader(which)
  local pieces, size = {}, 0
  return function(err, chunk)
    if err or not chunk then
      return vim.schedule(function()
        which.eof = true
        ended(which)
      end)
    end
    local lines, from = {}, 1
    for at in chunk:gmatch('()\n') do
      pieces[#pieces + 1] = chunk:sub(from, at - 1)
      lines[#lines + 1] = table.concat(pieces)
      pieces, size, from = {}, 0, at + 1
    end
    pieces[#pieces + 1] = chunk:sub(from)
    size = size + #chunk - from + 1
    if size > MAX_MESSAGE then which.process:kill('sigkill') end
    if #lines == 0 then return end
    vim.schedule(function()
      for _, line in ipairs(lines) do
        local ok, problem = xpcall(handle, debug.traceback, which, line)
        if not ok then vim.notify('rex: ' .. problem, vim.log.levels.ERROR) end
      end
    end)
  end
end

local function start()
  local stdin, stdout, stderr = uv.new_pipe(false), uv.new_pipe(false), uv.new_pipe(false)
  local which = { stdin = stdin, pending = {}, next_id = 1, log = '' }
  local arguments = vim.list_slice(M.command, 2)
  local process, problem = uv.spawn(M.command[1], { args = arguments, stdio = { stdin, stdout, stderr } },
    function(code, signal)
      for _, handle_ in ipairs({ stdin, which.process }) do
        if not handle_:is_closing() then handle_:close() end
      end
      vim.schedule(function()
        which.exit = signal ~= 0 and 'signal ' .. signal or 'exit code ' .. code
        ended(which)
      end)
    end)
  if not process then
    for _, pipe in ipairs({ stdin, stdout, stderr }) do pipe:close() end
    return nil, ('cannot start %s: %s; see :checkhealth rex'):format(M.command[1], problem)
  end
  which.process = process
  stdout:read_start(reader(which))
  stderr:read_start(function(_, chunk)
    if chunk then which.log = (which.log .. chunk):sub(-MAX_STDERR) end
  end)
  child = which
  M.request('initialize', {
    protocolVersion = '1.0',
    processId = uv.getpid(),
    clientInfo = { name = ('neovim (pid %d)'):format(uv.getpid()) },
    capabilities = { prompt = true },
  }, function(err, greeting)
    if err then return vim.notify('rex: ' .. err.message, vim.log.levels.ERROR) end
    M.instance = greeting.machine.instance
  end)
  return which
end

-- Sends a request; `done(error, result)` is called once, whatever happens. Returns what `cancel` takes.
function M.request(method, params, done)
  local problem
  if not child then _, problem = start() end
  if not child then
    vim.schedule(function() done(lost(problem)) end)
    return nil
  end
  local id = child.next_id
  child.next_id = id + 1
  child.pending[id] = done
  if next(params) == nil then params = vim.empty_dict() end
  write(child, { jsonrpc = '2.0', id = id, method = method, params = params })
  return id
end

function M.notify(method, params)
  if child then write(child, { jsonrpc = '2.0', method = method, params = params }) end
end

-- Stops what a request started; its answer comes all the same.
function M.cancel(id)
  if id then M.notify('$/cancelRequest', { id = id }) end
end

function M.on(method, handler)
  M.handlers[method] = M.handlers[method] or {}
  table.insert(M.handlers[method], handler)
end

-- Ends the program, as closing its input does; sessions of this editor end with it.
function M.stop()
  if child and not child.stdin:is_closing() then
    child.asked_to_end = true
    child.stdin:close()
    child, M.instance = nil, nil
  end
end

return M
