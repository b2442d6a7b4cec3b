import type { Placer } from '../store/decisions/placer.ts';
import { coalescePlacer } from './coalesce/placer.ts';
import { holdPlacer } from './hold/placer.ts';
import { orderPlacer } from './order/placer.ts';

/** Features that make deliveries or runs wait for others, in the order in which they are asked. */
export const placers: readonly Placer[] = [coalescePlacer, orderPlacer, holdPlacer];
