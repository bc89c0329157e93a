-- Posts the lines of a file one after the other, and reports the run as one line of JSON.
local requests = {}
local position = 0

function init(args)
  local headers = { ["content-type"] = "application/json", ["x-api-key"] = args[2] }
  for body in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format('{"replies":%d,"perSecond":%f,"p50":%f,"p99":%f,"failed":%d}', summary.requests,
    summary.requests * 1e6 / summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000, failed))
end
