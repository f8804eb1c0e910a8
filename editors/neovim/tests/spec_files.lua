-- rex://host/path: what is read, written and listed, and how much is asked for it.
local t = require('harness')
local same, url = t.same, t.url

t.test('opening a file is a stat and a read, saving it one write, and idling nothing', function()
  t.put('a.txt', 'one\ntwo\n')
  vim.cmd('edit ' .. url('warm')) -- the way there is made once
  same(t.asks(function() vim.cmd('edit ' .. url('a.txt')) end), { ['file/stat'] = 1, ['file/read'] = 1 })
  same(t.lines(), { 'one', 'two' })
  same(vim.bo.modified, false)
  vim.fn.setline(2, '2')
  same(t.asks(function() vim.cmd('write') end), { ['file/write'] = 1 })
  same(t.bytes('a.txt'), 'one\n2\n')
  same(vim.bo.modified, false)
  same(t.asks(function() vim.wait(t.idle_ms, function() return false end) end), {})
end)

t.test('a file keeps its bytes: encodings, line ends, NUL, no newline at the end', function()
  vim.o.fixendofline = false -- else Vim adds a newline, as it does to any file
  for name, bytes in pairs({
    dos = 'a\r\nb\r\n', unix = 'a\nb\n', cut = 'a\nb', utf8 = 'grün\n', latin1 = 'gr\252n\n', empty = '', newline = '\n',
    nul = 'a\0b\nc\n', bom = '\239\187\191a\n', split = ('x'):rep(4 * 1024 * 1024 - 1) .. 'ü\n',
  }) do
    t.put(name, bytes)
    vim.cmd('edit ' .. url(name))
    vim.cmd('write')
    same({ name, t.bytes(name) == bytes }, { name, true })
  end
  vim.o.fixendofline = true
end)

t.test('one undo does not take away what was read', function()
  t.put('undo', 'text\n')
  vim.cmd('edit ' .. url('undo'))
  vim.cmd('silent undo')
  same(t.lines(), { 'text' })
end)

t.test('a file that somebody else has changed is not overwritten, but by :write!', function()
  t.put('shared', 'mine\n')
  vim.cmd('edit ' .. url('shared'))
  t.put('shared', 'theirs, longer\n')
  vim.fn.setline(1, 'mine, too')
  vim.cmd('write')
  t.noticed('has changed since it was read')
  same({ t.bytes('shared'), vim.bo.modified }, { 'theirs, longer\n', true })
  vim.cmd('write!')
  same({ t.bytes('shared'), vim.bo.modified }, { 'mine, too\n', false })
  t.put('shared', 'theirs again\n')
  vim.cmd('edit!')
  same(t.lines(), { 'theirs again' })
end)

t.test('a new file is made once, with its file type, and one that came meanwhile is not overwritten', function()
  vim.cmd('filetype on')
  vim.cmd('edit ' .. url('new.py'))
  same(vim.bo.filetype, 'python')
  vim.fn.setline(1, 'pass')
  t.put('new.py', 'of another\n')
  vim.cmd('write')
  t.noticed('is there already')
  same(t.bytes('new.py'), 'of another\n')
  vim.fn.delete(t.folder .. '/new.py')
  vim.cmd('write')
  same({ t.bytes('new.py'), vim.bo.modified }, { 'pass\n', false })
end)

t.test('parts are written and read, and any buffer can be written to a host', function()
  vim.cmd('enew')
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'a', 'b', 'c' })
  vim.cmd('2,3write ' .. url('part'))
  same(t.bytes('part'), 'b\nc\n')
  vim.cmd('1read ' .. url('part'))
  same(t.lines(), { 'a', 'b', 'c', 'b', 'c' })
end)

t.test('what cannot be read or written is said in the words of the host, and the buffer stays as it is', function()
  vim.cmd('edit ' .. url('no/such/file'))
  vim.fn.setline(1, 'kept')
  vim.cmd('write')
  t.noticed('No such file')
  same({ t.lines(), vim.bo.modified }, { { 'kept' }, true })
  t.put('plain', '')
  vim.cmd('edit! ' .. url('plain/below'))
  t.noticed('Not a directory')
end)

t.test('names that are no text or mean something to Vim are opened and saved', function()
  for _, name in ipairs({ 'a b', 'percent%sharp#', 'br[ack]et', 'latin\252' }) do
    t.put(name, 'x\n')
    vim.cmd('edit ' .. vim.fn.fnameescape(url(name)))
    same({ name, t.lines() }, { name, { 'x' } })
    vim.fn.setline(1, 'y')
    vim.cmd('write')
    same({ name, t.bytes(name) }, { name, 'y\n' })
  end
end)

t.test('a name with a line end is opened out of its directory', function()
  vim.fn.mkdir(t.folder .. '/odd')
  t.put('odd/new\nline', 'x\n')
  vim.cmd('edit ' .. url('odd'))
  same(t.lines(), { 'new line' })
  vim.cmd('normal \r')
  same(t.lines(), { 'x' })
  vim.fn.setline(1, 'y')
  vim.cmd('write')
  same(t.bytes('odd/new\nline'), 'y\n')
end)

t.test('a directory of 10,000 entries is one request, and leads to what is in it', function()
  local directory = t.folder .. '/many'
  vim.fn.mkdir(directory .. '/sub', 'p')
  for i = 1, 9999 do t.put(('many/f%04d'):format(i), '') end
  same(t.asks(function() vim.cmd('edit ' .. url('many/')) end), { ['file/list'] = 1 })
  same({ #t.lines(), t.lines()[1], t.lines()[10000] }, { 10000, 'sub/', 'f9999' })
  vim.cmd('normal 2G\r')
  same(vim.fn.bufname(), url('many/f0001'))
  vim.cmd('edit ' .. url('many'))
  same(#t.lines(), 10000)
  vim.cmd('normal -')
  same(vim.fn.bufname(), require('rex.files').join(t.host, t.folder .. '/'))
end)

-- Opens what takes a while, with another buffer edited meanwhile; gives its buffer once it is there.
local function opened_meanwhile(name)
  require('rex.files').patience_ms = 0
  vim.cmd('edit ' .. url(name))
  local buffer = vim.api.nvim_get_current_buf()
  same({ vim.b.rex_loading, vim.bo.modifiable }, { true, false })
  vim.cmd('enew')
  vim.fn.setline(1, 'edited meanwhile')
  t.until_(function() return not vim.b[buffer].rex_loading end)
  require('rex.files').patience_ms = t.deadline
  same(t.lines(), { 'edited meanwhile' })
  vim.cmd('buffer! ' .. buffer)
end

t.test('while a directory of 10,000 entries comes, another buffer is edited', function()
  vim.fn.mkdir(t.folder .. '/crowd')
  for i = 1, 10000 do t.put(('crowd/f%05d'):format(i), '') end
  opened_meanwhile('crowd/')
  same({ #t.lines(), t.lines()[10000] }, { 10000, 'f10000' })
end)

t.test('while a file of 10 MB comes, another buffer is edited', function()
  local line = ('0123456789abcde\n'):rep(64)
  t.put('large', line:rep(10 * 1024))
  opened_meanwhile('large')
  same({ vim.fn.line('$'), vim.fn.getline('$'), vim.bo.modified }, { 64 * 10 * 1024, '0123456789abcde', false })
  vim.fn.setline(1, 'changed')
  same(t.asks(function() vim.cmd('write') end), { ['file/write'] = 1 })
  same(#t.bytes('large'), 10 * 1024 * 1024 - 8)
end)

t.finish()
