import { defineConfig } from 'sluice';

export default defineConfig({
  payloadStrategies: {
    methodAndBody: ({ delivery }) => Buffer.concat([Buffer.from(`${delivery.method} `), delivery.body]),
  },
});
