import type { Host, RunningPart, ServicePart } from './dashboard/services.ts';
import type { Sweeper } from './sweeper.ts';

/** What all parts do in the background, in the order of the parts. */
export function startParts(
  parts: readonly ServicePart[],
  host: Host,
): Required<Omit<RunningPart, 'sweeper'>> & { readonly sweepers: readonly Sweeper[] } {
  const started = parts.map(({ start }): RunningPart => start?.(host) ?? {});
  return {
    sweepers: started.flatMap(({ sweeper = [] }) => sweeper),
    async prepare() {
      for (const { prepare } of started) await prepare?.();
    },
    onTriggers() {
      for (const { onTriggers } of started) onTriggers?.();
    },
    begin() {
      for (const { begin } of started) begin?.();
    },
    async onDeploys(deploys) {
      for (const { onDeploys } of started) await onDeploys?.(deploys);
    },
    onSettings(settings) {
      for (const { onSettings } of started) onSettings?.(settings);
    },
    async stop() {
      await Promise.all(started.map(({ stop }) => stop?.()));
    },
  };
}
