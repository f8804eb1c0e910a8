-- An agent's loop in Lua, with dkjson: what the model wants goes into one shell session, what comes of it goes back.
local json = require("dkjson")

-- Lua has pipes in one direction only: the answers come through a fifo.
local fifo = os.tmpname()
os.remove(fifo)
assert(os.execute("mkfifo -m 600 " .. fifo))
local requests = assert(io.popen((os.getenv("REX_RPC") or "rex-rpc") .. " >" .. fifo, "w"))
local answers = assert(io.open(fifo))
os.remove(fifo)

local function call(method, params) -- one at a time, so that the next line is the answer
  requests:write(json.encode({ jsonrpc = "2.0", id = 1, method = method, params = params }), "\n"):flush()
  local answer = json.decode(answers:read("l"), 1, nil)
  return answer.result or error(answer.error.message)
end

-- Stands for yours, which would choose by what it saw.
local moves = { "cd /usr && pwd", "read -p 'Who is there? ' who && echo hello $who", "an agent", "ls /no/such 2>&1 | wc -l; exit 3" }
local function model(seen) return moves[#seen + 1] end

call("session/create", { session = "agent" })
local seen, state = {}, "ready"
for move in function() return model(seen) end do
  -- A program that waits for input is typed to; whatever takes longer than a minute is looked at again, not killed.
  local interactive = state == "waitingInput" or state == "running"
  local result = call("session/run", { session = "agent", command = move, interactive = interactive, waitMs = 60000 })
  state = result.state
  seen[#seen + 1] = ("> %s\n%s\n[%s %s]"):format(move, result.output:gsub("\n$", ""), state, result.exitCode or "null")
  print(seen[#seen])
end
requests:close()
