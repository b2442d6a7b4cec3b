import { holdMetrics } from './hold/metrics.ts';
import { httpRequestMetrics } from './http-request/metrics.ts';
import { schedulesMetrics } from './schedules/metrics.ts';

/** Makes the metrics of features, in the registry that it is given. */
export const metricParts = [httpRequestMetrics, schedulesMetrics, holdMetrics] as const;
