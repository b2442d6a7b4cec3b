import { acceptance } from '../store/conformance/acceptance.ts';
import { idempotency } from '../store/conformance/idempotency.ts';
import { leases } from '../store/conformance/leases.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { replicas } from '../store/conformance/replicas.ts';
import { runSuites } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

// The suites of acceptances and claims; the proof of the same name runs all suites.
runSuites('PostgreSQL', openEmpty, [acceptance, nonces, idempotency, leases, replicas]);
