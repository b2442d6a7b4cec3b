import type { Store } from '../../src/store/store.ts';
import { acceptance } from '../store/conformance/acceptance.ts';
import { activity } from '../store/conformance/activity.ts';
import { deliveries } from '../store/conformance/deliveries.ts';
import { flows } from '../store/conformance/flows.ts';
import { idempotency } from '../store/conformance/idempotency.ts';
import { learnedKeys } from '../store/conformance/learned-keys.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { replicas } from '../store/conformance/replicas.ts';
import { schedules } from '../store/conformance/schedules.ts';
import { runSuites } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

const complete = [flows, acceptance, nonces, idempotency, deliveries, learnedKeys, schedules, activity, replicas];
runSuites('PostgreSQL', () => openEmpty() as unknown as Promise<Store>, complete);

const accepting = [acceptance, nonces, idempotency];
const oneConnection = { acceptConnections: 1 };
runSuites(
  'PostgreSQL with one connection that accepts',
  () => openEmpty(oneConnection) as unknown as Promise<Store>,
  accepting,
);
