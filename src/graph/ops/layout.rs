//! How the dimensions of images and filters are ordered.

use crate::graph::attribute::enumeration;

enumeration! {
    /// How the dimensions of an input or output of an image operator are ordered.
    "MLInputOperandLayout" InputOperandLayout { Nchw "nchw", Nhwc "nhwc" }
}

impl InputOperandLayout {
    /// `[batches, channels, height, width]` of a shape in this layout.
    pub fn to_nchw<T: Copy>(self, shape: &[T]) -> [T; 4] {
        match self {
            InputOperandLayout::Nchw => [shape[0], shape[1], shape[2], shape[3]],
            InputOperandLayout::Nhwc => [shape[0], shape[3], shape[1], shape[2]],
        }
    }

    /// A shape in this layout, of `[batches, channels, height, width]`.
    pub fn of_nchw<T: Copy>(self, [n, c, h, w]: [T; 4]) -> [T; 4] {
        match self {
            InputOperandLayout::Nchw => [n, c, h, w],
            InputOperandLayout::Nhwc => [n, h, w, c],
        }
    }

    /// The axis of the channels.
    pub fn channel_axis(self) -> usize {
        match self {
            InputOperandLayout::Nchw => 1,
            InputOperandLayout::Nhwc => 3,
        }
    }
}

enumeration! {
    /// How the dimensions of a filter of conv2d are ordered.
    "MLConv2dFilterOperandLayout" Conv2dFilterOperandLayout { Oihw "oihw", Hwio "hwio", Ohwi "ohwi", Ihwo "ihwo" }
}

impl Conv2dFilterOperandLayout {
    /// `[output channels, input channels of a group, height, width]` of a shape in this layout.
    pub fn to_oihw<T: Copy>(self, shape: &[T]) -> [T; 4] {
        let at = |o: usize, i: usize, h: usize, w: usize| [shape[o], shape[i], shape[h], shape[w]];
        match self {
            Conv2dFilterOperandLayout::Oihw => at(0, 1, 2, 3),
            Conv2dFilterOperandLayout::Hwio => at(3, 2, 0, 1),
            Conv2dFilterOperandLayout::Ohwi => at(0, 3, 1, 2),
            Conv2dFilterOperandLayout::Ihwo => at(3, 0, 1, 2),
        }
    }
}

enumeration! {
    /// How the dimensions of a filter of convTranspose2d are ordered.
    "MLConvTranspose2dFilterOperandLayout" ConvTranspose2dFilterOperandLayout { Iohw "iohw", Hwoi "hwoi", Ohwi "ohwi" }
}

impl ConvTranspose2dFilterOperandLayout {
    /// `[input channels, output channels of a group, height, width]` of a shape in this layout.
    pub fn to_iohw<T: Copy>(self, shape: &[T]) -> [T; 4] {
        let at = |i: usize, o: usize, h: usize, w: usize| [shape[i], shape[o], shape[h], shape[w]];
        match self {
            ConvTranspose2dFilterOperandLayout::Iohw => at(0, 1, 2, 3),
            ConvTranspose2dFilterOperandLayout::Hwoi => at(3, 2, 0, 1),
            ConvTranspose2dFilterOperandLayout::Ohwi => at(3, 0, 1, 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_name_dimensions() {
        let named = |layout: &str| layout.chars().collect::<Vec<_>>();
        for (layout, name) in [(InputOperandLayout::Nchw, "nchw"), (InputOperandLayout::Nhwc, "nhwc")] {
            assert_eq!(layout.to_nchw(&named(name)), ['n', 'c', 'h', 'w']);
            assert_eq!(layout.of_nchw(['n', 'c', 'h', 'w'])[..], named(name));
            assert_eq!(named(name)[layout.channel_axis()], 'c');
        }
        use Conv2dFilterOperandLayout as Conv;
        for (layout, name) in [(Conv::Oihw, "oihw"), (Conv::Hwio, "hwio"), (Conv::Ohwi, "ohwi"), (Conv::Ihwo, "ihwo")] {
            assert_eq!(layout.to_oihw(&named(name)), ['o', 'i', 'h', 'w']);
        }
        use ConvTranspose2dFilterOperandLayout as Transpose;
        for (layout, name) in [(Transpose::Iohw, "iohw"), (Transpose::Hwoi, "hwoi"), (Transpose::Ohwi, "ohwi")] {
            assert_eq!(layout.to_iohw(&named(name)), ['i', 'o', 'h', 'w']);
        }
    }
}
