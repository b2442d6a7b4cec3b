import type { Placer } from '../store/decisions/placer.ts';
import { coalescePlacer } from './coalesce/placer.ts';
import { holdPlacer } from './hold/placer.ts';
import { orderPlacer } from './order/placer.ts';

/** What has deliveries or runs wait for others, in the order in which it is asked. */
export const placers: readonly Placer[] = [coalescePlacer, orderPlacer, holdPlacer];
