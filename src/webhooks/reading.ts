import { readers } from '../features/reader.ts';
import type { DeliveryReader, PreparedKeys } from './delivery-reader.ts';

export const readerProblems = (...given: Parameters<DeliveryReader['problems']>) =>
  readers.flatMap((reader) => reader.problems(...given));

/** The keys of the first reader that has some for the trigger. */
export const prepareKeys = (...given: Parameters<DeliveryReader['prepare']>): PreparedKeys | undefined =>
  readers.flatMap((reader) => reader.prepare(...given) ?? [])[0];
