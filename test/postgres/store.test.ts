import { acceptance } from '../store/conformance/acceptance.ts';
import { coalescingSuite } from '../store/conformance/coalescing.ts';
import { events } from '../store/conformance/events.ts';
import { filters } from '../store/conformance/filters.ts';
import { idempotency } from '../store/conformance/idempotency.ts';
import { leases } from '../store/conformance/leases.ts';
import { ledgerTime } from '../store/conformance/ledger-time.ts';
import { nonceNames } from '../store/conformance/nonce-names.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { orders } from '../store/conformance/orders.ts';
import { replicas } from '../store/conformance/replicas.ts';
import { routes } from '../store/conformance/routes.ts';
import { shared } from '../store/conformance/shared.ts';
import { runSuites } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

// What no delivery and no step may be lost or doubled by; all suites run in the proof of the same name.
runSuites('PostgreSQL', openEmpty, [
  acceptance,
  nonces,
  nonceNames,
  routes,
  ledgerTime,
  idempotency,
  filters,
  shared,
  events,
  coalescingSuite,
  orders,
  leases,
  replicas,
]);
