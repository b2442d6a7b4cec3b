import type { DeliveryReader } from '../webhooks/delivery-reader.ts';
import { searchKeysReader } from './search-keys/reader.ts';

/** Features that read values of deliveries by which people find them. */
export const readers: readonly DeliveryReader[] = [searchKeysReader];
