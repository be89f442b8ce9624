// The part of pngjs, which comes without types, that this folder uses.
declare module 'pngjs' {
  interface Pixels {
    width: number;
    height: number;
    data: Buffer;
  }

  export class PNG implements Pixels {
    constructor(options: { width: number; height: number });
    width: number;
    height: number;
    data: Buffer;
    static sync: {
      read(bytes: Buffer): Pixels;
      write(picture: PNG, options?: { colorType?: number; inputColorType?: number; deflateLevel?: number }): Buffer;
    };
  }
}
