import { Bursts } from './bursts.ts';
import { Coalesce } from './coalesce.ts';
import { Events } from './events.ts';
import { Order } from './order.ts';
import { Respond } from './respond.ts';
import { Share } from './share.ts';
import type { Stage } from './stage.ts';
import type { World } from './world.ts';

/** `on` tells the chance of one proof from that of another. */
export function sevenWorlds(stage: Stage, on: string): readonly World[] {
  return [
    new Events(stage, on),
    new Bursts(stage, on),
    new Order(stage, on, 'continue'),
    new Order(stage, on, 'stop'),
    new Coalesce(stage, on),
    new Share(stage, on),
    new Respond(stage, on),
  ];
}
