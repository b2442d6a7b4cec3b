import type { Placer } from '../store/decisions/placer.ts';
import { orderPlacer } from './order/placer.ts';

/** What has runs wait for others, in the order in which it is asked. */
export const placers: readonly Placer[] = [orderPlacer];
