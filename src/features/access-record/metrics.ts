import { Counter, type Registry } from 'prom-client';

export const accessRecordMetrics = (registry: Registry) => {
  /** Logins on the login page that `succeeded`, and logins there or by a header that `failed`. */
  const logins = new Counter({
    name: 'sluice_logins_total',
    help: 'Logins by result: succeeded on the login page, or failed, there or with the credentials of a request.',
    labelNames: ['result'],
    registers: [registry],
  });
  for (const result of ['succeeded', 'failed'] as const) logins.inc({ result }, 0);
  return { logins };
};
