/** Below and above all ids of deliveries. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000';
export const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The lowest id from that instant or later: the first 48 bits of an id are its milliseconds. */
export function firstIdAt(at: number): string {
  const hex = Math.max(0, Math.floor(at)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
