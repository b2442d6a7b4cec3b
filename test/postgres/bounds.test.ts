import type { Store } from '../../src/store/store.ts';
import { deliveryLog } from '../store/conformance/delivery-log.ts';
import { heldBounds } from '../store/conformance/held-bounds.ts';
import { openEmpty } from './schemas.ts';

deliveryLog('the delivery log on PostgreSQL', (log) => openEmpty({ log }) as unknown as Promise<Store>, {
  isAllBounded: false,
});

heldBounds((held) => openEmpty({ held }) as unknown as Promise<Store>);
