-- Terminal buffers on sessions: a shell of one's own, or a session that somebody else drives.
-- Must not know how a host is reached. What a session writes is shown from an offset on, so a view that was cut off goes
-- on where it stopped.
local client = require('rex.client')
local encoding = require('rex.encoding')
local hosts = require('rex.hosts')
local M = { shell = nil } -- shell: argv of new sessions; absent: the user's own there

local REPLAY_BYTES = 1024 * 1024 -- a longer journal is not replayed: its screen is shown as it is now
local KEEP_MS = 24 * 3600 * 1000 -- how long a shell on a host waits for its link, while no command runs in it
local FAREWELL_MS = 2000 -- how long Neovim waits at its end for its shells to end

local views = {} -- buffer -> view

local function show(view, text)
  if text == '' then return end
  view.in_line = text:sub(-1) ~= '\n'
  vim.api.nvim_chan_send(view.channel, text)
end

local function say(view, text)
  show(view, '\r\n\27[m[rex: ' .. encoding.printable(text) .. ']\r\n')
end

local function request(view, method, params, done)
  params.session = view.session
  return hosts.request(view.host, method, params, done)
end

-- ---------------------------------------------------------------- size

-- The size the terminal has: that of the largest window which shows it, as Neovim itself decides.
local function size_of(buffer)
  local rows, cols = 0, 0
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    local info = vim.fn.getwininfo(window)[1]
    rows, cols = math.max(rows, info.height), math.max(cols, info.width - info.textoff)
  end
  return rows, cols
end

local function fit(view)
  local rows, cols = size_of(view.buffer)
  if not view.writes or view.over or rows == 0 or (rows == view.rows and cols == view.cols) then return end
  view.rows, view.cols = rows, cols
  request(view, 'session/resize', { rows = rows, cols = cols }, function() end)
end

function M.fit_all()
  for _, view in pairs(views) do fit(view) end
end

-- ---------------------------------------------------------------- what comes

local function view_of(params)
  for _, view in pairs(views) do
    if view.attachment == params.attachment and view.host == (params.host or '') then return view end
  end
end

-- An agent's shell has no prompt of its own: who types into it gets one of ours, once all that came before it is shown.
local function prompt_if_due(view)
  if not view.prompt_at or view.next < view.prompt_at or not view.writes or view.state ~= 'ready' then return end
  view.prompt_at = nil
  if view.info.shell then show(view, (view.in_line and '\r\n' or '') .. encoding.printable(view.cwd) .. ' $ ') end
end

local function finish(view)
  local function told(code, signal)
    view.code = code
    vim.b[view.buffer].rex_exit_code = code
    say(view, signal and 'ended by signal ' .. signal or code and 'exited ' .. code or 'ended')
  end
  view.over = 'ended'
  view.attachment = nil
  if view.code or view.signal then return told(view.code, view.signal) end
  request(view, 'session/wait', { any = { { exit = true } }, waitMs = 0 }, function(_, waited)
    local result = waited and waited.result or {}
    told(result.exitCode, result.signal)
  end)
end

-- Something comes again after a loss.
local function goes_on(view)
  if not view.cut then return end
  view.cut = nil
  say(view, view.name .. ' goes on')
end

client.on('session/output', function(params)
  local view = view_of(params)
  if not view then return end
  goes_on(view)
  if params.gap then say(view, ('%d bytes were lost here'):format(params.gap.to - params.gap.from)) end
  -- Our terminal answers what programs asked of theirs (DSR, DA), but not what they asked before we came.
  view.replaying = params.offset < view.live_from
  show(view, encoding.bytes_of(params))
  view.replaying = false
  view.next = params.next
  client.notify('session/ack', { attachment = params.attachment, offset = params.next, host = params.host })
  if params.eof then return finish(view) end
  prompt_if_due(view)
end)

client.on('session/event', function(params)
  local view = view_of(params)
  if not view then return end
  goes_on(view)
  view.state = params.state
  if params.event == 'stateChanged' then
    view.prompt_at = params.state == 'ready' and params.offset or nil
    prompt_if_due(view)
  elseif params.event == 'shellExited' then
    view.code, view.signal = params.exitCode, params.signal
  elseif params.event == 'title' then
    vim.b[view.buffer].term_title = encoding.printable(params.title)
  elseif params.event == 'cwd' then
    view.cwd = params.cwd
  elseif params.event == 'waitingInput' and not view.own and params.waiting then
    vim.notify(('rex: %s waits for input: %s'):format(view.name, encoding.printable(params.waiting.text)))
  elseif params.event == 'writerChanged' and view.writes and params.writer and params.writer ~= view.me then
    view.writes = false
    say(view, encoding.printable(params.writer) .. ' types now; you watch')
  end
end)

local function cut_off(view, why)
  if view.over then return end
  view.over, view.attachment, view.cut = 'lost', nil, nil
  say(view, why .. '; Enter or :RexReconnect reaches it again')
end

-- A shell on a host goes on where it stopped once that is dialled again, and needs nobody for that. Sessions of others
-- are on this machine: they are lost with their program.
local function interrupted(view, why, again)
  if not (again and view.own and view.attachment) then return cut_off(view, why) end
  if view.cut or view.over then return end
  view.cut = true
  say(view, why .. '; it goes on by itself once that is there again')
end

table.insert(hosts.lost, function(host, why, again)
  for _, view in pairs(views) do
    if hosts.is_behind(host, view.host) then interrupted(view, why, again) end
  end
end)
client.on('attachment/ended', function(params)
  local view = view_of(params)
  if view then cut_off(view, encoding.printable(params.reason)) end
end)
table.insert(client.closed, function(why)
  for _, view in pairs(views) do cut_off(view, why) end
end)

-- ---------------------------------------------------------------- attaching

-- The screen as it is now, for a view that comes late.
local function show_screen(view, done)
  request(view, 'session/screen', { format = 'ansi' }, function(err, screen)
    if err then return done(view.info.next) end -- too large to be kept: what comes from now on is shown all the same
    local last = #screen.lines
    while last > screen.cursor.row + 1 and screen.lines[last] == '' do last = last - 1 end
    local lines = vim.list_slice(screen.lines, 1, last)
    show(view, (screen.alternate and '\27[?1049h\27[H' or '') .. table.concat(lines, '\27[m\r\n') .. '\27[m\r')
    if last - 1 > screen.cursor.row then show(view, ('\27[%dA'):format(last - 1 - screen.cursor.row)) end
    if screen.cursor.col > 0 then show(view, ('\27[%dC'):format(screen.cursor.col)) end
    done(screen.next)
  end)
end

-- Attaches where the view stopped; done(err).
local function attach(view, role, takeover, done)
  local params = { role = role, newline = 'terminal', offset = view.next }
  if takeover and role == 'writer' then params.takeover = true end
  request(view, 'session/attach', params, function(err, attached)
    if err and err.data and err.data.type == 'OffsetGone' then
      view.next = err.data.oldest
      return attach(view, role, takeover, done)
    end
    if err then return done(err) end
    view.attachment, view.info, view.state = attached.attachment, attached.info, attached.info.state
    view.cwd = attached.info.cwd
    view.live_from, view.over, view.code, view.signal = attached.info.next, nil, nil, nil
    view.writes = role == 'writer'
    view.prompt_at = view.state == 'ready' and attached.info.next or nil
    if view.writes then
      view.me = attached.info.writer
      fit(view)
    end
    done()
    prompt_if_due(view)
  end)
end

local function detach(view, done)
  if not view.attachment then return done() end
  local params = { attachment = view.attachment }
  view.attachment = nil
  hosts.request(view.host, 'session/detach', params, function() done() end)
end

-- Become writer or observer of the session in this buffer.
function M.take(role, takeover)
  local view = views[vim.api.nvim_get_current_buf()]
  if not view or view.over then return vim.notify('rex: no running session in this buffer', vim.log.levels.ERROR) end
  detach(view, function()
    if view.writes and role == 'observer' and view.before then -- the size it had before we came
      request(view, 'session/resize', view.before, function() end)
      view.rows, view.cols = nil, nil
    end
    attach(view, role, takeover, function(err)
      if not err then return say(view, (role == 'writer' and 'typing into ' or 'watching ') .. view.name) end
      say(view, err.message .. (role == 'writer' and '; :RexTake! takes it all the same' or ''))
      if role == 'writer' then attach(view, 'observer', false, function() end) end
    end)
  end)
end

-- ---------------------------------------------------------------- what is typed

local flush

-- One write at a time keeps the order; what is typed meanwhile goes with the next.
flush = function(view)
  if view.writing or view.typed == '' then return end
  local bytes = view.typed
  view.typed, view.writing = '', true
  request(view, 'session/write', encoding.with_data({}, bytes), function(err, written)
    view.writing = false
    if err and not view.over then say(view, err.message) end
    if not (written and written.accepted == #bytes) and bytes:find('\3', 1, true) and not view.over then
      request(view, 'session/interrupt', { graceMs = 0 }, function() end)
    end
    flush(view)
  end)
end

-- An agent's shell has no prompt to type at: a line is asked for here and run as the agent's commands are.
local function run_line(view, first)
  if view.asking then return end
  view.asking = true
  vim.ui.input({ prompt = (view.cwd or '') .. ' $ ', default = first:gsub('%c', '') }, function(line)
    view.asking = false
    if not line or vim.trim(line) == '' then return end
    show(view, line .. '\r\n')
    request(view, 'session/run', { command = line, waitMs = 0 }, function(err)
      if err then say(view, err.message) end
    end)
  end)
end

local function typed(view, bytes)
  if view.replaying then return end
  if view.over == 'lost' and bytes == '\r' then return M.reconnect(view.buffer) end
  if view.over then return end
  if not view.writes then
    if not vim.startswith(bytes, '\27') and not view.hinted then
      view.hinted = true
      say(view, 'only watching: :RexTake to type')
    end
  elseif view.state == 'ready' and view.info.shell then
    vim.schedule(function() run_line(view, bytes) end)
  else
    view.typed = view.typed .. bytes
    flush(view)
  end
end

-- ---------------------------------------------------------------- buffers

local function new_view(host, mods)
  local buffer = vim.api.nvim_create_buf(true, false)
  if mods == '' then vim.api.nvim_win_set_buf(0, buffer) else vim.cmd(mods .. ' sbuffer ' .. buffer) end
  local view = { buffer = buffer, host = host, next = 0, live_from = 0, typed = '' }
  view.channel = vim.api.nvim_open_term(buffer, {
    on_input = function(_, _, _, bytes) typed(view, bytes) end,
  })
  vim.bo[buffer].bufhidden = 'hide'
  vim.cmd('normal! G') -- from its last line a window follows what is written
  views[buffer] = view
  vim.api.nvim_create_autocmd('BufDelete', {
    buffer = buffer,
    once = true,
    callback = function()
      views[buffer] = nil
      if view.own and view.session and not view.over then
        request(view, 'session/close', {}, function() end)
      elseif view.attachment then
        detach(view, function()
          if view.writes and view.before then request(view, 'session/resize', view.before, function() end) end
        end)
      end
    end,
  })
  return view
end

local function name_view(view)
  view.name = (view.host == '' and '' or view.host .. '/') .. view.session
  local name = ('rexterm://%s/%s'):format(view.host:gsub('/', '~'), view.session)
  pcall(vim.api.nvim_buf_set_name, view.buffer, name)
end

local function shell_of(host, done)
  if M.shell then return done(nil, M.shell) end
  if host == '' then return done(nil, { vim.env.SHELL or '/bin/sh', '-i' }) end
  hosts.request(host, 'ping', {}, function(err)
    if err then return done(err) end
    local parent, name = host:match('^(.*)/([^/]+)$')
    hosts.request(parent or '', 'host/info', { name = name or host }, function(problem, info)
      local shell = not problem and info.machine.shell or ''
      done(problem, { vim.startswith(shell, '/') and shell or '/bin/sh', '-l' })
    end)
  end)
end

local function create(view, cwd)
  local function failed(err)
    view.over = view.over or 'lost'
    say(view, err.message .. '; Enter or :RexReconnect tries again')
  end
  view.own = true
  shell_of(view.host, function(err, argv)
    if err then return failed(err) end
    local rows, cols = size_of(view.buffer)
    local params = {
      argv = argv, cwd = cwd, profile = 'human', env = { TERM = 'xterm-256color' },
      rows = math.max(rows, 1), cols = math.max(cols, 1),
    }
    if view.host ~= '' then params.lifetime, params.ttlMs = 'daemon', KEEP_MS end -- it outlives its link
    hosts.request(view.host, 'session/create', params, function(problem, info)
      if problem then return failed(problem) end
      view.session, view.rows, view.cols, view.next = info.session, info.rows, info.cols, 0
      name_view(view)
      attach(view, 'writer', false, function(refused)
        if refused then failed(refused) end
      end)
    end)
  end)
end

-- `:Rex`: a new shell on `host` in a buffer of its own.
function M.open(host, mods, cwd)
  local view = new_view(host, mods or '')
  create(view, cwd)
  return view.buffer
end

-- A session that is there: watched, or typed into at once. done() when it is shown.
function M.attach(host, session, mods, takeover)
  local view = new_view(host, mods or '')
  view.session = session
  name_view(view)
  request(view, 'session/info', {}, function(err, info)
    if err then
      view.over = 'lost'
      return say(view, err.message)
    end
    view.info, view.before = info, info.tty and { rows = info.rows, cols = info.cols } or nil
    local function go_on(offset)
      view.next = offset
      attach(view, takeover and 'writer' or 'observer', takeover, function(refused)
        if refused then say(view, refused.message) end
      end)
    end
    if info.tty and (info.oldest > 0 or info.next > REPLAY_BYTES) then
      show_screen(view, go_on)
    else
      go_on(info.oldest)
    end
  end)
  return view.buffer
end

-- Goes on with a session that was cut off, where it stopped; one that has ended with its host makes way for a new shell.
function M.reconnect(buffer)
  local view = views[buffer or vim.api.nvim_get_current_buf()]
  if not view or view.over ~= 'lost' then
    return vim.notify('rex: nothing to reconnect in this buffer', vim.log.levels.ERROR)
  end
  view.over = 'reconnecting'
  if not view.session then return create(view) end
  say(view, 'reaching ' .. view.name)
  attach(view, (view.own or view.writes) and 'writer' or 'observer', false, function(err)
    if not err then return end
    if view.own and err.data and err.data.type == 'SessionNotFound' then
      say(view, 'the session has ended with its link; this is a new one')
      return create(view)
    end
    view.over = 'lost'
    say(view, err.message)
  end)
end

-- Neovim ends: so do its shells, also those on hosts, which would outlive it.
function M.leave()
  local open = 0
  for _, view in pairs(views) do
    if view.own and view.attachment and not view.cut then
      open = open + 1
      request(view, 'session/close', {}, function() open = open - 1 end)
    end
  end
  vim.wait(FAREWELL_MS, function() return open == 0 end, 5)
end

-- host, directory of the session in `buffer`, or nothing.
function M.place(buffer)
  local view = views[buffer]
  if view then return view.host, view.cwd end
end

return M
