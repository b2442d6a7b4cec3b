import { defineConfig, type GatePlugin } from '@sluicehq/sluice';

const businessHours: GatePlugin<unknown> = {
  name: 'business-hours',
  prepare({ inputs }) {
    if (inputs.webhookSlug !== 'orders') return undefined;
    return {
      name: 'business-hours',
      check({ receivedAt }) {
        const hour = new Date(receivedAt).getUTCHours();
        if (hour >= 7 && hour < 19) return { passed: true };
        return { passed: false, reason: 'rate_limited', detail: 'orders are accepted from 07:00 to 19:00 UTC' };
      },
    };
  },
};

export default defineConfig({ gates: [businessHours] });
