import type { Host, RunningPart, ServicePart } from './dashboard/services.ts';
import type { Persist } from './flows/runtime.ts';
import type { Sweeper } from './sweeper.ts';
import { holdsNothing } from './webhooks/holding.ts';

interface RunningParts extends Required<Omit<RunningPart, 'sweeper' | 'prepare' | 'begin'>> {
  readonly sweepers: readonly Sweeper[];
  prepare(persist: Persist): Promise<void>;
  begin(persist: Persist): Promise<void>;
}

/** Starts the background work of all parts, in their order. */
export function startParts(parts: readonly ServicePart[], host: Host): RunningParts {
  const started = parts.map(({ start }): RunningPart => start?.(host) ?? {});
  return {
    sweepers: started.flatMap(({ sweeper = [] }) => sweeper),
    async prepare(persist) {
      for (const { prepare } of started) await persist(async () => prepare?.());
    },
    onTriggers() {
      for (const { onTriggers } of started) onTriggers?.();
    },
    async begin(persist) {
      for (const { begin } of started) await persist(async () => begin?.());
    },
    async onChange(change) {
      for (const { onChange } of started) await onChange?.(change);
    },
    async onDeploys(deploys) {
      for (const { onDeploys } of started) await onDeploys?.(deploys);
    },
    holding: started.flatMap(({ holding }) => holding ?? [])[0] ?? holdsNothing,
    onSettings(settings) {
      for (const { onSettings } of started) onSettings?.(settings);
    },
    async stop() {
      await Promise.all(started.map(({ stop }) => stop?.()));
    },
  };
}
