import { defineConfig } from '@sluicehq/sluice';

export default defineConfig({
  signatureSpecs: [
    {
      name: 'Parcels',
      headerName: 'X-Parcels-Signature',
      algorithm: 'sha512',
      encoding: 'base64Url',
      signedPayloadStrategy: 'RawBody',
    },
  ],
});
