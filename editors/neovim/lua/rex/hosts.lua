-- Hosts by their names: those of setup() and of URLs are connected before their first use, those of the hosts file
-- are rex-rpc's to dial. Also the questions that a host asks while it is dialled.
-- Must not know what is done on a host.
local client = require('rex.client')
local encoding = require('rex.encoding')
local M = {
  targets = {}, -- path of names -> what host/connect takes beside the name: url, argv or deployment, options, ...
  lost = {}, -- list of function(host, why, again): what was on `host` and behind it is not to be reached; `again`: now,
             -- for rex-rpc dials it again by itself, and what was attached there goes on then
}

local connected = {} -- path -> true
local connecting = {} -- path -> list of callbacks
local states = {} -- path -> {state, phase, detail} as it was told last
local missed = {} -- path -> true from its loss until it is there again

local function split(path)
  local parent, name = path:match('^(.*)/([^/]+)$')
  return parent or '', name or path
end

function M.is_behind(host, other)
  return other == host or vim.startswith(other, host .. '/')
end

local function told(params)
  local host, state = params.host, params.state
  states[host] = params
  if state == 'ready' then missed[host] = nil end
  if state ~= 'lost' and state ~= 'closed' then return vim.cmd('redrawstatus') end
  for path in pairs(connected) do
    if M.is_behind(host, path) then connected[path] = nil end
  end
  local why = ('host %s is %s: %s'):format(host, state, encoding.printable(params.detail))
  -- A dial that fails is told as the answer to its request, and those after a loss not at all.
  if state == 'lost' and not connecting[host] and not missed[host] then
    missed[host] = true
    vim.notify(vim.fn.strcharpart('rex: ' .. why, 0, vim.o.columns - 12), vim.log.levels.WARN) -- on one line: no Enter
  end
  for _, each in ipairs(M.lost) do each(host, why, state == 'lost' and params.retryMs ~= nil) end
  vim.cmd('redrawstatus')
end
client.on('host/status', told)
table.insert(client.closed, function(why)
  connected, states, missed = {}, {}, {}
  vim.notify('rex: ' .. why, vim.log.levels.ERROR)
end)

-- "gpu: connecting (auth)" of every host that is on its way or lost; for a status line.
function M.status()
  local words = {}
  for host, told_ in pairs(states) do
    if told_.state ~= 'ready' and told_.state ~= 'closed' then
      words[#words + 1] = ('%s: %s%s'):format(host, told_.state, told_.phase and ' (' .. told_.phase .. ')' or '')
    end
  end
  table.sort(words)
  return table.concat(words, ' ')
end

local function connect(path, done)
  if connecting[path] then return table.insert(connecting[path], done) end
  connecting[path] = { done }
  local parent, name = split(path)
  local params = vim.tbl_extend('force', {}, M.targets[path], { name = name, host = parent })
  client.request('host/connect', params, function(err)
    connected[path] = not err or nil
    local waiting = connecting[path]
    connecting[path] = nil
    for _, each in ipairs(waiting) do each(err) end
  end)
end

-- Connects what has to be on the way to `host`, nearest first.
local function reach(host, done)
  local at = 0
  local function step(err)
    if err then return done(err) end
    while at and at <= #host do
      local slash = host:find('/', at + 1, true)
      local path = host:sub(1, slash and slash - 1 or nil)
      at = slash
      if M.targets[path] and not connected[path] then return connect(path, step) end
      if not slash then break end
    end
    done()
  end
  if host == '' then return done() end
  step()
end

-- A request on `host`; the same promise as client.request, and what comes back cancels it.
function M.request(host, method, params, done)
  local handle = {}
  reach(host, function(err)
    if err then return done(err) end
    if handle.cancelled then return done({ code = -32800, message = 'cancelled', data = { type = 'RequestCancelled' } }) end
    if host ~= '' then params.host = host end
    handle.id = client.request(method, params, done)
  end)
  return handle
end

function M.cancel(handle)
  handle.cancelled = true
  client.cancel(handle.id)
end

-- The path of names for what a person wrote: a path, or a URL, which becomes a target of its own name.
function M.named(text)
  if not (text:find('://', 1, true) or vim.startswith(text, 'exec:')) then return text end
  local name = vim.startswith(text, 'exec:') and 'exec' or text:gsub('//', '', 1)
  name = name:gsub('[^%w%._%-%+@:]', '-'):sub(1, 255)
  M.targets[name] = M.targets[name] or { url = text }
  return name
end

-- All there are, with their states, as {name = {state, ...}}; done(err, hosts).
function M.list(done)
  client.request('host/list', {}, function(err, result)
    if err then return done(err) end
    local all = {}
    for path in pairs(M.targets) do all[path] = { name = path, state = 'closed' } end
    for _, info in ipairs(result.hosts) do all[info.name] = info end
    done(nil, all, result.detail)
  end)
end

-- ---------------------------------------------------------------- questions

local asking, queue = false, {}

local function ask_next()
  local next_ = table.remove(queue, 1)
  asking = next_ ~= nil
  if not next_ then return end
  local params, reply = next_[1], next_[2]
  local function answered(text)
    if text and text ~= '' then reply({ answer = text }) else reply(nil, 'nobody has answered') end
    ask_next()
  end
  local question = ('Host %s asks for %s. It says: %s '):format(encoding.printable(params.host),
    params.kind == 'hostKey' and 'a yes to its key' or 'a ' .. params.kind, encoding.printable(params.text))
  if params.secret then
    local ok, text = pcall(vim.fn.inputsecret, question)
    vim.cmd('redraw')
    answered(ok and text or nil)
  else
    vim.ui.input({ prompt = question }, answered)
  end
end

client.answerers['host/prompt'] = function(params, reply)
  queue[#queue + 1] = { params, reply }
  if not asking then
    asking = true
    vim.schedule(ask_next)
  end
end

return M
