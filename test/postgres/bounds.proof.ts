import { deliveryLog } from '../store/conformance/delivery-log.ts';
import { heldBounds } from '../store/conformance/held-bounds.ts';
import { openEmpty } from './schemas.ts';

deliveryLog('the delivery log on PostgreSQL', (log) => openEmpty({ log }), { isAllBounded: false });

heldBounds((held) => openEmpty({ held }));
