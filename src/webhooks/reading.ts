import type { DeliveryReader, PreparedKeys } from './delivery-reader.ts';
import { searchKeysReader } from './search-keys.ts';

const readers: readonly DeliveryReader[] = [searchKeysReader];

export const readerProblems = (...given: Parameters<DeliveryReader['problems']>) =>
  readers.flatMap((reader) => reader.problems(...given));

/** The keys of the first reader that has some for the trigger. */
export const prepareKeys = (...given: Parameters<DeliveryReader['prepare']>): PreparedKeys | undefined =>
  readers.flatMap((reader) => reader.prepare(...given) ?? [])[0];
