import { option, wholeNumber } from '../../config/setting-row.ts';
import { HOST_LIMIT_FORMS, hostEntryTexts } from './host-limits.ts';

export const httpRequestSettings = {
  outgoingHosts: option(hostEntryTexts.default([]), {
    variable: 'SLUICE_OUTGOING_HOSTS',
    contents: 'open',
    replicas: 'same',
    accepts: HOST_LIMIT_FORMS,
    meaning:
      'Limits the rate and the number of concurrent requests of steps to a host, across all flows and replicas. Steps that have to wait hold no slot.',
    tellsWhy: true,
  }),
  circuitFailures: wholeNumber([0, 1000, '; 0 never stops calling a host'], (number) => number.default(10), {
    variable: 'SLUICE_CIRCUIT_FAILURES',
    contents: 'open',
    replicas: 'same',
    meaning:
      'Number of consecutive requests to a host without a connection, without a timely answer or with a 5xx, after which steps wait until the host answers again. Waiting uses no attempts.',
  }),
};
