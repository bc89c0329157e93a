-- Walks through whole requests of a file, each after a line with its length, and reports the run as one line of JSON.
local requests = {}
local position = 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local length = file:read("*n")
  while length do
    file:read(1)
    requests[#requests + 1] = file:read(length)
    length = file:read("*n")
  end
  file:close()
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local counts = {}
  for index = 1, #latency do
    local microseconds, count = latency(index)
    counts[index] = string.format("[%d,%d]", microseconds, count)
  end
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format('{"requests":%d,"microseconds":%d,"failed":%d,"latencies":[%s]}', summary.requests,
    summary.duration, failed, table.concat(counts, ",")))
end
