import { defineConfig } from '@sluicehq/sluice';

export default defineConfig({
  payloadStrategies: {
    methodAndBody: ({ delivery }) => Buffer.concat([Buffer.from(`${delivery.method} `), delivery.body]),
  },
});
