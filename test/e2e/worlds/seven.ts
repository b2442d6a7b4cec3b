import { Bursts } from './bursts.ts';
import { Coalesce } from './coalesce.ts';
import { Events } from './events.ts';
import { Order } from './order.ts';
import { Respond } from './respond.ts';
import { Share } from './share.ts';
import type { Stage } from './stage.ts';
import type { World } from './world.ts';

/** Lets all worlds act at once, each for this many commands. */
export async function play(worlds: readonly World[], commands: number): Promise<void> {
  await Promise.all(
    worlds.map(async (world) => {
      for (let command = 0; command < commands; command += 1) await world.act();
    }),
  );
}

/** Settings of every service of the worlds; every copy must be able to open sealed values. */
export const ENVIRONMENT = {
  SLUICE_ENFORCEMENT_MODE: 'Enforce',
  SLUICE_LOG_LEVEL: 'warn',
  SLUICE_STORE_KEY: `sluice-key-${'7'.repeat(64)}`,
} as const;

/** `on` gives each proof its own random draws. */
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
