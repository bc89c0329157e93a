/** The server's clock in epoch milliseconds. */
export const readClock = {
  name: "read-clock",
  text: "select (extract(epoch from clock_timestamp()) * 1000)::float8 as now",
};
