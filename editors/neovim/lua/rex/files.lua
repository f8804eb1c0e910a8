-- Buffers named rex://host/path: files are read whole and written whole or not at all, directories are listed.
-- A path of hosts has tildes here, rex://bastion~build7/etc/fstab, because a slash ends the host. Reading and writing
-- goes through a private file beside, so that Neovim itself decides about encodings and line ends.
-- Must not know how a host is reached.
local encoding = require('rex.encoding')
local hosts = require('rex.hosts')
local M = {
  patience_ms = 500, -- how long :edit waits; then the file comes when it comes
}

local PIECE = 4 * 1024 * 1024 -- of a file, in one answer; at most 8 MiB are allowed
local LIST_LIMIT = 10000
local MAX_SAVED = 15 * 1024 * 1024 -- of `data` in one message, which may have 16 MiB

-- "rex://gpu~web/etc" -> "gpu/web", "/etc"
function M.split(name)
  local host, path = name:match('^rex://([^/]*)(/.*)$')
  if not host then return nil end
  return (host:gsub('~', '/')), path
end

function M.join(host, path)
  return 'rex://' .. host:gsub('/', '~') .. path
end

local function with_path(path, params)
  return encoding.with_name(params, 'path', path)
end

local function failed(err)
  vim.notify('rex: ' .. err.message, vim.log.levels.ERROR)
end

-- ---------------------------------------------------------------- reading

-- The pieces behind the first, all asked for at once; done(err, bytes).
local function read_rest(host, path, first, done)
  local pieces, open, problem = { encoding.bytes_of(first) }, 0, nil
  for offset = first.next, first.size - 1, PIECE do
    local at = #pieces + 1
    pieces[at], open = '', open + 1
    hosts.request(host, 'file/read', with_path(path, { offset = offset, length = PIECE }), function(err, piece)
      open = open - 1
      if err then
        problem = problem or err
      elseif piece.etag ~= first.etag then
        problem = problem or { message = path .. ' changed while it was read; :edit! reads it again', data = {} }
      else
        pieces[at] = encoding.bytes_of(piece)
      end
      if open == 0 then done(problem, table.concat(pieces)) end
    end)
  end
  if open == 0 then done(nil, pieces[1]) end
end

local function list(host, path, done)
  local entries = {}
  local function page(cursor)
    hosts.request(host, 'file/list', with_path(path, { limit = LIST_LIMIT, cursor = cursor }), function(err, listed)
      if err then return done(err) end
      vim.list_extend(entries, listed.entries)
      if listed.cursor then return page(listed.cursor) end
      done(nil, { entries = entries })
    end)
  end
  page()
end

-- What is at a path, in one round trip: done(err, {bytes, etag}) or {entries} or {absent = true}. Returns what cancels.
local function fetch(host, path, done)
  if path:sub(-1) == '/' then return list(host, path, done) end
  local answers = {}
  local function both()
    local stat_err, stat, err, first = answers.stat_err, answers.stat, answers.err, answers.first
    if not (stat_err or stat) or not (err or first) then return end
    if stat_err and stat_err.data and stat_err.data.name == 'ENOENT' then return done(nil, { absent = true }) end
    if stat and stat.type == 'directory' then return list(host, path, done) end
    if stat_err or err then return done(stat_err or err) end
    if stat.type ~= 'file' then return done({ message = path .. ' is no file but a ' .. stat.type, data = {} }) end
    read_rest(host, path, first, function(problem, bytes) done(problem, { bytes = bytes, etag = first.etag }) end)
  end
  hosts.request(host, 'file/stat', with_path(path, {}), function(err, stat)
    answers.stat_err, answers.stat = err, stat
    both()
  end)
  return hosts.request(host, 'file/read', with_path(path, { length = PIECE }), function(err, first)
    answers.err, answers.first = err, first
    both()
  end)
end

-- Runs `use` with the name of a private file that has these bytes.
local function through_file(bytes, use)
  local name = vim.fn.tempname()
  local file = assert(io.open(name, 'wb'))
  file:write(bytes or '')
  file:close()
  local ok, problem = pcall(use, name)
  local read = io.open(name, 'rb')
  local after = read and read:read('*a')
  if read then read:close() end
  os.remove(name)
  if not ok then error(problem, 0) end
  return after
end

local function fill_file(buffer, got)
  vim.b[buffer].rex_etag = got.etag
  local levels = vim.bo[buffer].undolevels
  vim.bo[buffer].undolevels = -1 -- what was read is not undone
  through_file(got.bytes, function(name)
    vim.cmd('silent keepalt keepjumps 0read ++edit ' .. vim.fn.fnameescape(name))
  end)
  if vim.api.nvim_buf_line_count(buffer) > 1 then
    vim.cmd('silent keepjumps $delete _') -- the line an empty buffer has
  end
  vim.bo[buffer].undolevels = levels
end

local function fill_directory(buffer, host, path, entries)
  path = path:sub(-1) == '/' and path or path .. '/'
  table.sort(entries, function(a, b)
    local a_first, b_first = a.type == 'directory', b.type == 'directory'
    if a_first ~= b_first then return a_first end
    return encoding.name_of(a, 'name') < encoding.name_of(b, 'name')
  end)
  local lines, names = {}, {}
  for i, entry in ipairs(entries) do
    local name = encoding.name_of(entry, 'name')
    local mark = entry.type == 'directory' and '/' or entry.type == 'symlink' and '@' or ''
    lines[i], names[i] = encoding.printable(name) .. mark, name .. (entry.type == 'directory' and '/' or '')
  end
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].buftype, vim.bo[buffer].modifiable, vim.bo[buffer].filetype = 'nofile', false, 'rexdirectory'
  local function go(name) -- by its number: a name may have a line end
    local to = vim.fn.bufadd(M.join(host, name))
    vim.bo[to].buflisted = true
    vim.cmd('buffer ' .. to)
  end
  vim.keymap.set('n', '<CR>', function()
    local name = names[vim.fn.line('.')]
    if name then go(path .. name) end
  end, { buffer = buffer, desc = 'Open what is on this line' })
  vim.keymap.set('n', '-', function() go(path:match('^(.*/)[^/]+/$') or '/') end,
    { buffer = buffer, desc = 'Go to the directory above' })
end

local function fill(buffer, host, path, got)
  vim.b[buffer].rex_loading, vim.b[buffer].rex_new = nil, got.absent
  vim.bo[buffer].modifiable, vim.bo[buffer].buftype = true, 'acwrite'
  if got.entries then
    fill_directory(buffer, host, path, got.entries)
  elseif got.bytes then
    fill_file(buffer, got)
  else
    vim.b[buffer].rex_etag = nil
    vim.api.nvim_echo({ { ('"%s" [New]'):format(vim.fn.bufname(buffer)) } }, false, {})
  end
  vim.bo[buffer].modified = false
  if not got.entries then vim.api.nvim_exec_autocmds(got.absent and 'BufNewFile' or 'BufReadPost', { buffer = buffer }) end
end

-- BufReadCmd: waits a little, so that what follows finds the text, but not for a slow host.
function M.read(buffer, name)
  local host, path = M.split(name)
  if not host then return failed({ message = name .. ' is no rex://host/path' }) end
  local over = false
  vim.bo[buffer].buftype, vim.bo[buffer].modifiable, vim.b[buffer].rex_loading = 'acwrite', false, true
  local handle = fetch(host, path, function(err, got)
    over = true
    if not vim.api.nvim_buf_is_valid(buffer) then return end
    if err then
      vim.b[buffer].rex_failed = err.message
      return failed(err)
    end
    vim.b[buffer].rex_failed = nil
    vim.api.nvim_buf_call(buffer, function() fill(buffer, host, path, got) end)
  end)
  local _, why = vim.wait(M.patience_ms, function() return over end, 5)
  if over then return end
  if why == -2 and handle then hosts.cancel(handle) end
  vim.api.nvim_echo({ { ('"%s" is being read'):format(name) } }, false, {})
end

-- FileReadCmd, `:read rex://host/path`: behind the line that the command names.
function M.insert(name)
  local host, path = M.split(name)
  local at = vim.fn.line("'[")
  local err, got, over
  local handle = fetch(host, path, function(problem, result) err, got, over = problem, result, true end)
  vim.wait(2 ^ 31 - 1, function() return over end, 5)
  if not over then
    hosts.cancel(handle)
    return failed({ message = 'interrupted' })
  end
  if err or not got.bytes then return failed(err or { message = name .. ' is no file' }) end
  through_file(got.bytes, function(file) vim.cmd(('silent keepalt %dread %s'):format(at, vim.fn.fnameescape(file))) end)
end

-- ---------------------------------------------------------------- writing

-- Writes lines `first` to `last` of this buffer to a name; true where that was done.
function M.write(buffer, name, first, last, bang)
  local host, path = M.split(name)
  local own = name == vim.api.nvim_buf_get_name(buffer)
  if vim.b[buffer].rex_loading then return failed({ message = name .. ' has not been read; :edit! tries again' }) end
  local bytes = through_file('', function(file)
    vim.cmd(('silent keepalt noautocmd %d,%dwrite! %s'):format(first, last, vim.fn.fnameescape(file)))
  end)
  local params = encoding.with_data(with_path(path, { parents = false }), bytes)
  if #params.data > MAX_SAVED then
    return failed({ message = ('%s is too large to be saved: %d bytes'):format(name, #bytes) })
  end
  if not bang then
    params.ifMatch = own and vim.b[buffer].rex_etag or nil
    params.ifAbsent = not params.ifMatch or nil
  end
  local err, stat, over
  local handle = hosts.request(host, 'file/write', params, function(problem, result) err, stat, over = problem, result, true end)
  vim.wait(2 ^ 31 - 1, function() return over end, 5)
  if not over then
    hosts.cancel(handle)
    return failed({ message = name .. ': interrupted; it is not known whether it was written' })
  end
  if err and err.data.type == 'Conflict' then
    return failed({ message = ('%s %s; :write! replaces it, :edit! reads it'):format(name,
      params.ifMatch and 'has changed since it was read' or 'is there already') })
  end
  if err then return failed(err) end
  if own then
    vim.b[buffer].rex_etag, vim.b[buffer].rex_new = stat.etag, nil
    if first == 1 and last == vim.api.nvim_buf_line_count(buffer) then vim.bo[buffer].modified = false end
  end
  vim.api.nvim_echo({ { ('"%s" %dL, %dB written'):format(name, last - first + 1, #bytes) } }, false, {})
  return true
end

return M
