import type { Registry } from 'prom-client';

interface FlowGauge {
  set(labels: { readonly flow: string }, value: number): void;
}

type GaugeOfFlows = (described: { readonly name: string; readonly help: string }) => FlowGauge;

export const holdMetrics = (_: Registry, gaugeOfFlows: GaugeOfFlows) => ({
  deliveriesHeld: gaugeOfFlows({
    name: 'sluice_deliveries_held',
    help: 'Accepted deliveries whose runs start when their flow is enabled or resumed, by flow.',
  }),
});
