import { accessRecordMetrics } from './access-record/metrics.ts';
import { holdMetrics } from './hold/metrics.ts';
import { httpRequestMetrics } from './http-request/metrics.ts';
import { schedulesMetrics } from './schedules/metrics.ts';

/** Each makes the metrics of a feature in the given registry. */
export const metricParts = [httpRequestMetrics, schedulesMetrics, holdMetrics, accessRecordMetrics] as const;
