import { Histogram, type Registry } from 'prom-client';

export const schedulesMetrics = (registry: Registry) => ({
  scheduleLagMs: new Histogram({
    name: 'sluice_schedule_lag_ms',
    help: 'Milliseconds from the time a cron trigger became due to the start of its run.',
    buckets: [1, 5, 25, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 3_600_000],
    registers: [registry],
  }),
});
