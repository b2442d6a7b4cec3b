import { Counter, Gauge, type Registry } from 'prom-client';

/** `host` is an origin for the first 50 hosts, then `other`. */
export const httpRequestMetrics = (registry: Registry) => ({
  outgoingRequests: new Counter({
    name: 'sluice_outgoing_requests_total',
    help: 'Requests of HttpRequest steps by host and result: answered, failed, refused (Retry-After) or none. 50 hosts, then other.',
    labelNames: ['host', 'result'],
    registers: [registry],
  }),
  outgoingCircuitsOpen: new Gauge({
    name: 'sluice_outgoing_circuits_open',
    help: '1 while the circuit of a host is open, else 0; of other hosts, how many are open.',
    labelNames: ['host'],
    registers: [registry],
  }),
  /** Counted within the last second. */
  outgoingWaitingSteps: new Gauge({
    name: 'sluice_outgoing_waiting_steps',
    help: 'Steps that wait for their turn at a host, in all replicas; at most 10000 are counted for each host.',
    labelNames: ['host'],
    registers: [registry],
  }),
});
