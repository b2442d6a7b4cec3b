import { heldShares as sql } from '../../migrations/0010-held-shares.ts';

export const heldShares = { version: 10, name: 'held shares', compatibleFrom: 1, locks: ['flows'], sql };
