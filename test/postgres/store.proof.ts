import { acceptance } from '../store/conformance/acceptance.ts';
import { coalescingSuite } from '../store/conformance/coalescing.ts';
import { events } from '../store/conformance/events.ts';
import { filters } from '../store/conformance/filters.ts';
import { holds } from '../store/conformance/holds.ts';
import { idempotency } from '../store/conformance/idempotency.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { companyConformance, runSuites, storeConformance } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

storeConformance('PostgreSQL', openEmpty);
companyConformance('PostgreSQL', openEmpty);

const accepting = [acceptance, nonces, idempotency, filters, events, coalescingSuite, holds];
runSuites('PostgreSQL with one connection that accepts', () => openEmpty({ acceptConnections: 1 }), accepting);
