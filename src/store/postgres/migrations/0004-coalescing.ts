import { coalescing as tables } from '../../migrations/0004-coalescing.ts';

export const coalescing = {
  version: 4,
  name: 'coalescing',
  // Earlier releases refuse the manifests that write any of it.
  compatibleFrom: 1,
  locks: ['runs', 'held_deliveries'],
  sql: tables,
};
